package worker

import (
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// orphans are the processes that this process inherits. A program below this process started
// them and left them. An orphan may be in a session of its own, where no signal to the
// program's group reaches it.
type orphans struct {
	before []int          // children that were there before the program
	died   chan os.Signal // a child has died
}

// adopt makes this process inherit orphans, for the rest of its life.
func adopt() *orphans {
	o := &orphans{before: children(), died: make(chan os.Signal, 1)}
	if unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil { // else this process inherits nothing
		signal.Notify(o.died, unix.SIGCHLD)
	}
	return o
}

// bury waits for the orphans that have ended, since each stays in the system's process table
// until then. Another goroutine waits for the program itself.
func (o *orphans) bury(program int) {
	for _, pid := range o.left() {
		if pid != program {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil) // the orphan may still run
		}
	}
}

// end kills the orphans that are left when the program has ended, and the orphans that these
// leave in turn, until there are none, or drainMax is over.
func (o *orphans) end() {
	signal.Stop(o.died)
	for until := time.Now().Add(drainMax); time.Now().Before(until); time.Sleep(time.Millisecond) {
		left := o.left()
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			_ = unix.Kill(pid, unix.SIGKILL) // a child keeps its number until it is waited for
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
}

// left returns the children that this process got since adopt.
func (o *orphans) left() []int {
	return slices.DeleteFunc(children(), func(pid int) bool { return slices.Contains(o.before, pid) })
}

// children returns the children of all threads of this process. It returns none if the kernel
// does not list them.
func children() (all []int) {
	files, _ := filepath.Glob("/proc/self/task/*/children") // the pattern is well-formed
	for _, file := range files {
		text, err := readSmall(file)
		if err != nil {
			continue // the thread has no children, or has ended
		}
		if len(text) == kernelMax {
			text = text[:strings.LastIndexByte(text, ' ')] // the last number may be cut
		}
		for word := range strings.FieldsSeq(text) {
			if pid, err := strconv.Atoi(word); err == nil {
				all = append(all, pid)
			}
		}
	}
	return all
}

// kill kills a process of a control group.
func kill(pid int) { _ = unix.Kill(pid, unix.SIGKILL) }

// gone reports whether no process has this id.
func gone(pid int) bool { return pid > 0 && errors.Is(unix.Kill(pid, 0), unix.ESRCH) }
