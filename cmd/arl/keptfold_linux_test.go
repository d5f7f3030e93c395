package main

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestKilledWhileKeeping kills a command in the middle of writing the fold, which
// goes through a pipe that holds so much and no more, and leaves what was written
// so far, or what was left of a longer one: the next command gives the answer, and
// puts a whole file in its place.
func TestKilledWhileKeeping(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	defer k.end()
	id := k.incident()
	for k.log.Head().Size < 150 { // more than the pipe holds
		k.step(decimal(k.log.Head().Size))
	}
	want := k.says("incident", "show", decimal(id), "--no-cache")
	place := k.place()
	pending := place.Path + ".pending"
	k.must(os.MkdirAll(filepath.Dir(place.Path), 0o700))
	for _, old := range []bool{false, true} { // whether a fold is kept already
		for _, written := range []int{1, 100, 4000, 9000} {
			k.must(syscall.Mkfifo(pending, 0o600))
			pipe, err := os.OpenFile(pending, os.O_RDWR, 0) // as a reader alone it would wait for the writer
			k.must(err)
			const setPipeSize = 1031 // F_SETPIPE_SZ
			if _, _, code := syscall.Syscall(syscall.SYS_FCNTL, pipe.Fd(), setPipeSize, 4096); code != 0 {
				t.Fatal(code)
			}
			cmd := k.command("incident", "show", decimal(id), "--url", k.web.URL)
			k.must(cmd.Start())
			k.must(pipe.SetReadDeadline(time.Now().Add(time.Minute))) // if nobody writes there
			part := make([]byte, written)
			_, err = io.ReadFull(pipe, part)
			k.must(err)
			k.must(cmd.Process.Kill())
			if err := cmd.Wait(); err == nil {
				t.Fatal("the command ended before it was killed")
			}
			k.must(pipe.Close())
			k.must(os.Remove(pending))
			k.must(os.WriteFile(pending, append(part, make([]byte, written%3<<20)...), 0o600))
			if _, err := os.Stat(place.Path); os.IsNotExist(err) == old {
				t.Fatalf("killed after %d bytes: %v", written, err)
			}
			if out := k.says("incident", "show", decimal(id)); out != want {
				t.Fatalf("killed after %d bytes, the next command says:\n%s", written, out)
			}
			kept, err := place.Load()
			if err != nil || kept.Head.Head != k.log.Head().Head {
				t.Fatalf("killed after %d bytes: %v", written, err)
			}
			if _, err := os.Stat(pending); !os.IsNotExist(err) {
				t.Errorf("killed after %d bytes: %s is left, %v", written, pending, err)
			}
			if !old {
				k.must(os.Remove(place.Path))
			} else {
				k.step(decimal(k.log.Head().Size)) // so that the next one writes
				want = k.says("incident", "show", decimal(id), "--no-cache")
			}
		}
		k.says("incident", "list")
		k.step(decimal(k.log.Head().Size))
	}
}
