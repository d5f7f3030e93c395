package scenario

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"

	"recoveryledger/ledger/entry"
)

// lineReader cuts a scenario into lines. It holds at most CaseBytesMax bytes
// of one, however long it is.
type lineReader struct {
	file string
	in   *bufio.Reader
	// number counts the lines so far; skip is set while the rest of a line
	// over the limit is still to be passed over.
	number int
	skip   bool
}

func newLineReader(file string, r io.Reader) *lineReader {
	return &lineReader{file: file, in: bufio.NewReaderSize(r, 64<<10)}
}

// next appends the next line, without its newline, to dst. An error about the line leaves dst
// unchanged, and the reader is then before the next line. At the end the error is io.EOF.
func (l *lineReader) next(dst []byte) (out []byte, wrong *Error, err error) {
	if l.skip {
		if err := l.pass(); err != nil {
			return dst, nil, err
		}
	}
	start := len(dst)
	for l.number++; ; {
		part, err := l.in.ReadSlice('\n')
		dst = append(dst, part...)
		if text := bytes.TrimSuffix(dst[start:], []byte("\n")); len(text) > CaseBytesMax {
			l.skip = err != nil
			return dst[:start], l.at(&Error{Problem: entry.TooLarge, Detail: fmt.Sprintf("is longer than %d bytes", CaseBytesMax),
				Remedy: "split the case, or check that the file is NDJSON: one case a line"}), nil
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(dst) == start:
			return dst, nil, io.EOF
		case err != nil && !errors.Is(err, io.EOF):
			return dst[:start], nil, fmt.Errorf("scenario: read %s: %w", l.file, err)
		}
		text := bytes.TrimSpace(dst[start:])
		if len(text) == 0 {
			return dst[:start], l.at(Malformed("", "is empty", "remove the line, or write a case into it")), nil
		}
		return append(dst[:start], text...), nil, nil
	}
}

// pass reads to the end of a line without keeping it.
func (l *lineReader) pass() error {
	for {
		switch _, err := l.in.ReadSlice('\n'); {
		case err == nil:
			l.skip = false
			return nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return io.EOF
		default:
			return fmt.Errorf("scenario: read %s: %w", l.file, err)
		}
	}
}

// at says in an error which line it is about.
func (l *lineReader) at(wrong *Error) *Error {
	wrong.File, wrong.Line = l.file, l.number
	return wrong
}

// idOf returns the id of the case on a line. If the line begins as [Encode] writes it, idOf does
// not look at the rest. Empty: the line has no readable id, and decoding gives the reason.
func idOf(line []byte) string {
	if rest, ok := bytes.CutPrefix(line, []byte(`{"v":1,"id":"`)); ok {
		if id, _, ok := bytes.Cut(rest, []byte(`"`)); ok && !bytes.ContainsRune(id, '\\') {
			return string(id)
		}
	}
	var head struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(line, &head) != nil {
		return ""
	}
	return head.ID
}

// byteOrderMark refuses the mark that some editors write before UTF-8, and that JSON
// does not have.
func byteOrderMark(text []byte) *Error {
	if !bytes.HasPrefix(text, []byte("\ufeff")) {
		return nil
	}
	return Malformed("", "begins with a byte order mark", "write the file again as UTF-8 without one, as by sed -i '1s/^\\xEF\\xBB\\xBF//' FILE")
}

// noText are the beginnings of files that are no text in UTF-8, with what to do.
var noText = []struct{ prefix, what, remedy string }{
	{"\x1f\x8b", "is compressed by gzip", "decompress it: gzip -dc FILE"},
	{"\x28\xb5\x2f\xfd", "is compressed by zstd", "decompress it: zstd -dc FILE"},
	{"BZh", "is compressed by bzip2", "decompress it: bzip2 -dc FILE"},
	{"\xfd7zXZ\x00", "is compressed by xz", "decompress it: xz -dc FILE"},
	{"PK\x03\x04", "is a zip archive", "extract the files that are in it"},
	{"PAR1", "is Parquet", "write the table as JSON, a row a line"},
	{"\xff\xfe", "is UTF-16", "write it as UTF-8: iconv -f UTF-16 -t UTF-8 FILE"},
	{"\xfe\xff", "is UTF-16", "write it as UTF-8: iconv -f UTF-16 -t UTF-8 FILE"},
	{"{\x00", "is UTF-16", "write it as UTF-8: iconv -f UTF-16LE -t UTF-8 FILE"},
	{"[\x00", "is UTF-16", "write it as UTF-8: iconv -f UTF-16LE -t UTF-8 FILE"},
	{"\x00{", "is UTF-16", "write it as UTF-8: iconv -f UTF-16BE -t UTF-8 FILE"},
	{"\x00[", "is UTF-16", "write it as UTF-8: iconv -f UTF-16BE -t UTF-8 FILE"},
}

// NoText refuses the beginning of a file that is compressed, or no text in UTF-8. It refuses a byte
// order mark, too.
func NoText(begin []byte) *Error {
	for _, no := range noText {
		if bytes.HasPrefix(begin, []byte(no.prefix)) {
			return Malformed("", no.what, no.remedy)
		}
	}
	return byteOrderMark(begin)
}

// NewlinesBefore counts the newlines before the next value.
func NewlinesBefore(rest []byte) int {
	value := bytes.TrimLeft(rest, " \t\r\n,:")
	return bytes.Count(rest[:len(rest)-len(value)], []byte("\n"))
}

// IDHash is the short form of a case id in a set of many.
func IDHash(id string) [16]byte {
	sum := sha256.Sum256([]byte(id))
	return [16]byte(sum[:16])
}
