package importer

import "io"

// CountedReader counts the bytes that are read through it. A progress display shows the count.
type CountedReader struct {
	Reader io.Reader
	Count  *int64
}

// Read implements [io.Reader].
func (c *CountedReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	*c.Count += int64(n)
	return n, err
}
