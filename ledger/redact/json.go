package redact

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// secretValue stands for the value of a member whose name says that it is a secret.
const secretValue = "[secret]"

// JSON redacts the strings and numbers of a text that is JSON, and the values of members whose
// names are sensitive. The result of any other text is a JSON string. Lines stay lines, and a line
// without a secret stays as it is.
func JSON(text string) jsontext.Value {
	var out bytes.Buffer
	enc, dec := jsontext.NewEncoder(&out), jsontext.NewDecoder(strings.NewReader(text))
	if err := redactValue(enc, dec); err == nil {
		if _, err := dec.ReadToken(); errors.Is(err, io.EOF) {
			return bytes.TrimSpace(out.Bytes())
		}
	}
	value, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(lineByLine(text), "\uFFFD"))
	if err != nil {
		return jsontext.Value(`"` + secretValue + `"`)
	}
	return value
}

// redactValue copies a value without its secrets.
func redactValue(enc *jsontext.Encoder, dec *jsontext.Decoder) error {
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return err
		}
		kind, length := dec.StackIndex(dec.StackDepth())
		isName := kind == '{' && length%2 == 1 && token.Kind() == '"'
		switch text := token.String(); {
		case isName && Sensitive(text):
			if err := errors.Join(enc.WriteToken(token), dec.SkipValue()); err != nil {
				return err
			}
			token = jsontext.String(secretValue)
		case !isName && token.Kind() == '"':
			token = jsontext.String(lineByLine(text))
		case token.Kind() == '0':
			if left := Text(text); left != text {
				token = jsontext.String(left)
			}
		}
		if err := enc.WriteToken(token); err != nil {
			return err
		}
		if dec.StackDepth() == 0 {
			return nil
		}
	}
}

// lineByLine redacts a text line by line.
func lineByLine(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		left := Text(line)
		if strings.Join(strings.Fields(left), " ") != strings.Join(strings.Fields(line), " ") {
			lines[i] = left
		}
	}
	return strings.Join(lines, "\n")
}
