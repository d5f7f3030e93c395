package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// CheckTables reads every table of the database in dir, of which nobody removes one meanwhile. The
// error is [ErrCorrupt], and names the first table that is damaged, or that of a read.
func CheckTables(ctx context.Context, fs vfs.FS, dir string, options *pebble.Options) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		if err := CheckTable(ctx, fs, fs.PathJoin(dir, name), options); err != nil {
			return fmt.Errorf("%s: %w", name, Classed(err))
		}
	}
	return ctx.Err()
}

// CheckTable reads every block of a table, the filters included, and compares its checksum.
func CheckTable(ctx context.Context, fs vfs.FS, path string, options *pebble.Options) error {
	file, err := fs.Open(path)
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(file)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	reader, err := sstable.NewReader(ctx, readable, options.MakeReaderOptions())
	if err != nil {
		return err // the reader has closed the file
	}
	return errors.Join(reader.ValidateBlockChecksums(), reader.Close())
}
