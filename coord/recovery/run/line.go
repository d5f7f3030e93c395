package run

import "context"

// Line recovers the case on one line of a scenario, as [Batch.Run] does. An error
// about the line is an [*Error] without file and line.
func (b *Batch) Line(ctx context.Context, line []byte) (*Done, error) {
	c, wrong := decodeCase(line)
	if wrong == nil {
		wrong = b.check(&c)
	}
	if wrong != nil {
		return nil, wrong
	}
	done, err := b.one(ctx, &c)
	return &done, err
}
