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

// orphans are the processes that this one inherits: those that a program below it
// started and left, also in a session of their own, where no signal to the
// program's group reaches them.
type orphans struct {
	before []int          // children that were there before the program
	died   chan os.Signal // some child has
}

// adopt makes this process the one that inherits them, for good.
func adopt() *orphans {
	o := &orphans{before: children(), died: make(chan os.Signal, 1)}
	if unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == nil { // else nothing is inherited
		signal.Notify(o.died, unix.SIGCHLD)
	}
	return o
}

// bury takes note of those that have ended, which stay in the system's table
// until then. The program itself is waited for by somebody else.
func (o *orphans) bury(program int) {
	for _, pid := range o.left() {
		if pid != program {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil) // it may still run
		}
	}
}

// end kills those that are left when the program has ended, and those that they
// leave in turn, until there are none.
func (o *orphans) end() {
	signal.Stop(o.died)
	for until := time.Now().Add(drainMax); time.Now().Before(until); time.Sleep(time.Millisecond) {
		left := o.left()
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			_ = unix.Kill(pid, unix.SIGKILL) // it is a child, so that nobody else has its number
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
}

// left are the children that came after the beginning.
func (o *orphans) left() []int {
	return slices.DeleteFunc(children(), func(pid int) bool { return slices.Contains(o.before, pid) })
}

// children are those of this process, whichever thread of it has them; none where
// the kernel does not tell.
func children() (all []int) {
	files, _ := filepath.Glob("/proc/self/task/*/children") // the pattern is one
	for _, file := range files {
		text, err := readSmall(file)
		if err != nil {
			continue // a thread that has none, or has ended
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
