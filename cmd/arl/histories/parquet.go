package histories

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

const (
	parquetMagic = "PAR1"  // the file begins and ends with it
	pageSize     = 1 << 20 // bytes from which on the next value begins another page
)

// writeParquet writes the rows as a file of one row group. Each column is a list of data pages of
// version 1 in the encoding PLAIN, compressed by zstd. No value is null, so there are no levels
// (parquet.apache.org/docs/file-format). The same rows are the same bytes.
func writeParquet(out *bytes.Buffer, rows []row, p proof) error {
	var files strings.Builder
	for _, h := range p.histories {
		files.Write(append(slices.Clip(h), '\n'))
	}
	heads := strings.Join(slices.Compact(slices.Sorted(slices.Values(p.heads))), "\n")
	file := format.FileMetaData{Version: 1, NumRows: int64(len(rows)), CreatedBy: "arl",
		Schema:           []format.SchemaElement{{Name: "row", NumChildren: thrift.New(int32(len(columns)))}},
		KeyValueMetadata: []format.KeyValue{{Key: metaHeads, Value: heads}, {Key: metaHistories, Value: files.String()}},
	}
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	out.WriteString(parquetMagic)
	group := format.RowGroup{NumRows: int64(len(rows))}
	for i := range columns {
		c := &columns[i]
		file.Schema = append(file.Schema, c.element())
		if len(rows) == 0 {
			continue
		}
		chunk, err := c.write(out, rows, w)
		if err != nil {
			return err
		}
		group.TotalByteSize += chunk.MetaData.TotalUncompressedSize
		group.TotalCompressedSize += chunk.MetaData.TotalCompressedSize
		group.Columns = append(group.Columns, chunk)
	}
	if len(rows) > 0 {
		group.FileOffset = int64(len(parquetMagic))
		file.RowGroups = append(file.RowGroups, group)
	}
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), file)
	if err != nil {
		return err
	}
	out.Write(footer)
	out.Write(binary.LittleEndian.AppendUint32(nil, uint32(len(footer))))
	out.WriteString(parquetMagic)
	return nil
}

// element is the column in the schema.
func (c *column) element() format.SchemaElement {
	as := func(stored format.Type, logical format.LogicalTypeValue, converted deprecated.ConvertedType) format.SchemaElement {
		return format.SchemaElement{Name: c.Name, Type: thrift.New(stored), RepetitionType: thrift.New(format.Required),
			LogicalType: format.LogicalType{Value: logical}, ConvertedType: thrift.New(converted)}
	}
	switch c.of(new(row)).(type) {
	case uint64:
		return as(format.Int64, &format.IntType{BitWidth: 64}, deprecated.Uint64)
	case instant:
		utc := &format.TimestampType{IsAdjustedToUTC: true, Unit: format.TimeUnit{Value: new(format.MilliSeconds)}}
		return as(format.Int64, utc, deprecated.TimestampMillis)
	case jsontext.Value:
		return as(format.ByteArray, new(format.JsonType), deprecated.Json)
	default:
		return as(format.ByteArray, new(format.StringType), deprecated.UTF8)
	}
}

// write writes the pages of the column.
func (c *column) write(out *bytes.Buffer, rows []row, compressed *zstd.Encoder) (format.ColumnChunk, error) {
	m := format.ColumnMetaData{Type: c.element().Type.V, Encoding: []format.Encoding{format.Plain}, PathInSchema: []string{c.Name},
		Codec: format.Zstd, NumValues: int64(len(rows)), DataPageOffset: int64(out.Len())}
	var page []byte
	count := int32(0) // of values in page
	for i := range rows {
		page = appendPlain(page, c.of(&rows[i]))
		if count++; len(page) < pageSize && i < len(rows)-1 {
			continue
		}
		content := compressed.EncodeAll(page, nil)
		header, err := thrift.Marshal(new(thrift.CompactProtocol), format.PageHeader{Type: format.DataPage,
			UncompressedPageSize: int32(len(page)), CompressedPageSize: int32(len(content)), CRC: int32(crc32.ChecksumIEEE(content)),
			DataPageHeader: thrift.New(format.DataPageHeader{NumValues: count, Encoding: format.Plain,
				DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE})})
		if err != nil {
			return format.ColumnChunk{}, err
		}
		out.Write(header)
		out.Write(content)
		m.TotalUncompressedSize += int64(len(header) + len(page))
		m.TotalCompressedSize += int64(len(header) + len(content))
		page, count = page[:0], 0
	}
	return format.ColumnChunk{MetaData: m}, nil
}

// appendPlain appends a value in the encoding PLAIN.
func appendPlain(page []byte, value any) []byte {
	switch v := value.(type) {
	case uint64:
		return binary.LittleEndian.AppendUint64(page, v)
	case instant:
		return binary.LittleEndian.AppendUint64(page, uint64(v))
	case jsontext.Value:
		return append(binary.LittleEndian.AppendUint32(page, uint32(len(v))), v...)
	default:
		text := v.(string)
		return append(binary.LittleEndian.AppendUint32(page, uint32(len(text))), text...)
	}
}
