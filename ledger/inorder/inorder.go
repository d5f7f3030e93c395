// Package inorder commits batches one after the other, while further batches are made ready:
// signing the next entries needs a processor, and a commit waits for the disk.
package inorder

import "sync"

// Most is how many batches of a [Queue] are under way at a time. It bounds the memory that a queue
// takes.
const Most = 3

// Queue takes batches. The zero value is ready for use. One goroutine uses a queue.
type Queue[T any] struct {
	room chan struct{} // holds a token for each batch under way
	last chan struct{} // closed when the newest batch is done

	mu  sync.Mutex
	err error // the first since it was last returned
}

// Put takes a batch. Put waits while [Most] batches are under way. Another goroutine calls ready,
// beside those of other batches, and then commit with its result, in the order of the calls of Put.
// If ready fails, commit is not called. The error is that of an earlier batch; no later call
// returns it again. Batches behind a failed one are committed.
func (q *Queue[T]) Put(ready func() (T, error), commit func(T) error) error {
	if q.room == nil {
		q.room = make(chan struct{}, Most)
	}
	q.room <- struct{}{}
	before, done := q.last, make(chan struct{})
	q.last = done
	go func() {
		made, err := ready()
		if before != nil {
			<-before
		}
		if err == nil {
			err = commit(made)
		}
		q.note(err)
		<-q.room
		close(done)
	}()
	return q.failure()
}

// Wait returns when no batch is under way. The error is as that of Put.
func (q *Queue[T]) Wait() error {
	if q.last != nil {
		<-q.last
	}
	return q.failure()
}

func (q *Queue[T]) note(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
	}
}

func (q *Queue[T]) failure() (err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	err, q.err = q.err, nil
	return err
}
