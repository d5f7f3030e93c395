// Package pieces reads a JSON object that is too large to be held, in pieces of the same form.
//
// Such an object has its elements in an array, or in arrays inside one another:
//
//	{"resourceSpans": [{"resource": R, "scopeSpans": [{"scope": S, "spans": [1, 2, …]}]}]}
//
// A piece has some of the elements of one innermost array, in the arrays and objects around them,
// with the members that the elements need and that stand before the array:
//
//	{"resourceSpans":[{"resource":R,"scopeSpans":[{"scope":S,"spans":[1]}]}]}
//
// So whoever reads such an object reads a piece. Package pieces promises that the elements of the
// pieces are those of the object, each once and in order; that [Piece.Field] gives the place in the
// object; and that an object which cannot be divided so is an error. Members that no [Level] names
// are passed over. The limit of [Guard] bounds the memory.
package pieces

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"recoveryledger/coord/recovery/scenario"
)

// memberSize is what a member of an object on the way counts for beside its name: the decoder holds
// the names of the members, to find one that stands twice.
const memberSize = 64

// ErrForm is the error of an object that has no element in any of the forms, or has two forms.
var ErrForm = errors.New("the object has none of the forms")

// Level is an array, in the object around it.
type Level struct {
	// Names are those of the array. A piece has the first of them.
	Names []string
	// Keep are the members of the object that the elements need. An outermost object has none.
	Keep []string
}

// Form is the arrays on the way to the elements, the outermost first.
type Form []Level

// Piece is some elements of an object.
type Piece struct {
	// Value is the piece, valid until the next one is read.
	Value jsontext.Value

	form  Form
	at    []int // the indices of the first element
	count int
}

// Field is the pointer into the object, from one into the piece. A pointer to the whole piece gives
// its element, or the array if the piece has more elements. Without a piece the pointer stays.
func (p *Piece) Field(pointer string) string {
	if p == nil {
		return pointer
	}
	tokens := strings.Split(pointer, "/")
	if pointer == "" {
		for _, level := range p.form {
			tokens = append(tokens, level.Names[0], "0")
		}
		if p.count > 1 {
			tokens = tokens[:len(tokens)-1]
		}
	}
	for i, level := range p.form {
		at := 2*i + 2 // after an empty token, and a name and an index for each array
		if at >= len(tokens) || !slices.Contains(level.Names, tokens[at-1]) {
			break
		}
		index, err := strconv.Atoi(tokens[at])
		if err != nil {
			break
		}
		tokens[at] = strconv.Itoa(p.at[i] + index)
	}
	return strings.Join(tokens, "/")
}

// Reader reads one object.
type Reader struct {
	dec   *jsontext.Decoder
	in    *Guard
	forms []Form

	form  Form     // of the object; empty: not known yet
	way   []object // the object around the array of each level
	name  string   // of the member whose value comes next, in the innermost object
	found bool     // a piece was given
	buf   []byte   // of the piece
	err   error
}

// object is an open object on the way to the elements.
type object struct {
	kept  []byte // the members that the elements need, a comma after each
	next  int    // the index of the next element of the array
	names int    // the size of the members so far, as memberSize says
}

// New reads the object that comes next in the decoder, which reads from the guard.
func New(dec *jsontext.Decoder, in *Guard, forms []Form) *Reader {
	return &Reader{dec: dec, in: in, forms: forms}
}

// Next gives the next piece, and io.EOF after the object. An error is one of the decoder, about the
// value that [Reader.Place] names; [ErrForm]; or a [*scenario.Error] with its field. It is final.
func (r *Reader) Next() (*Piece, error) {
	for r.err == nil {
		switch depth := r.dec.StackDepth(); { // even in an array, odd in an object
		case depth == 0 && r.way != nil:
			if r.err = io.EOF; !r.found {
				r.err = ErrForm
			}
		case depth%2 == 1:
			r.err = r.member(depth / 2)
		case depth > 0 && depth == 2*len(r.form):
			if p := r.gather(); p != nil {
				r.found = true
				return p, nil
			}
		default:
			r.err = r.enter(depth / 2)
		}
	}
	return nil, r.err
}

// Place is the pointer to the value that comes next.
func (r *Reader) Place() string {
	var at jsontext.Pointer
	depth := r.dec.StackDepth()
	for level := range depth / 2 {
		index := r.way[level].next
		if level < (depth-1)/2 {
			index-- // the element is open
		}
		at = at.AppendToken(r.form[level].Names[0]).AppendToken(strconv.Itoa(index))
	}
	if depth%2 == 1 && r.name != "" {
		at = at.AppendToken(r.name)
	}
	return string(at)
}

// peek gives the kind of the next token, and lets the guard read on to it.
func (r *Reader) peek() jsontext.Kind {
	r.in.Begin(r.dec.UnreadBuffer())
	kind := r.dec.PeekKind()
	r.in.Begin(bytes.TrimLeft(r.dec.UnreadBuffer(), " \t\r\n,:"))
	return kind
}

// value reads the value that peek saw.
func (r *Reader) value() (jsontext.Value, error) {
	value, err := r.dec.ReadValue()
	if err == nil && len(value) > r.in.Limit {
		err = ErrTooLarge
	}
	return value, err
}

// token reads the token that peek saw.
func (r *Reader) token() error {
	_, err := r.dec.ReadToken()
	return err
}

// enter reads the beginning of an object of a level, or the end of the array around it.
func (r *Reader) enter(level int) error {
	switch kind := r.peek(); kind {
	case ']', jsontext.KindInvalid: // the token has the error
		return r.token()
	case '{':
		if level > 0 {
			r.way[level-1].next++
		}
		r.way = append(r.way[:level], object{})
		return r.token()
	default:
		return scenario.Malformed(r.Place(), "holds "+scenario.KindName(kind)+" and not an object", "write an object")
	}
}

// member reads a member of the object of a level, or the end of the object. Of an array on the way
// it reads the beginning alone.
func (r *Reader) member(level int) error {
	r.name = ""
	if r.peek() == '}' {
		return r.token()
	}
	name, err := r.dec.ReadToken()
	if err != nil {
		return err
	}
	r.name = name.String()
	o := &r.way[level]
	if o.names += memberSize + len(r.name); o.names > r.in.Limit {
		return ErrTooLarge
	}
	kind := r.peek()
	if on, err := r.onWay(level, kind); on || err != nil {
		switch {
		case err != nil:
			return err
		case kind == '[' || kind == jsontext.KindInvalid:
			return r.token()
		}
		return scenario.Malformed(r.Place(), "holds "+scenario.KindName(kind)+" and not an array", "write an array")
	}
	keep := kind != 'n' && r.form != nil && slices.Contains(r.form[level].Keep, r.name)
	if keep && o.next > 0 {
		return scenario.Malformed(r.Place(), "stands behind the "+r.form[level].Names[0]+" that it belongs to, in an object that is too large to be held",
			"write it before them")
	}
	value, err := r.value()
	if keep && err == nil {
		o.kept = slices.Concat(o.kept, []byte(strconv.Quote(r.name)+":"), value, []byte(","))
	}
	return err
}

// onWay says whether the member is the array of its level. The first such array of the outermost
// object decides the form. The null that stands for no array is none.
func (r *Reader) onWay(level int, kind jsontext.Kind) (bool, error) {
	if level > 0 {
		return kind != 'n' && slices.Contains(r.form[level].Names, r.name), nil
	}
	for _, form := range r.forms {
		if kind != '[' || !slices.Contains(form[0].Names, r.name) {
			continue
		}
		if r.form != nil && &r.form[0] != &form[0] {
			return false, ErrForm
		}
		r.form = form
		return true, nil
	}
	return false, nil
}

// gather reads elements of the innermost array as a piece, or the end of the array. The elements
// have as many bytes as what is around them, so that all pieces together are at most some two times
// as large as the object. They have few more: who cannot read an element may refuse the piece.
func (r *Reader) gather() *Piece {
	p := &Piece{form: r.form}
	last := len(r.form) - 1
	r.buf = r.buf[:0]
	for i, level := range r.form {
		o := &r.way[i]
		p.at = append(p.at, o.next-1) // of the element that is open
		r.buf = append(append(append(r.buf, '{'), o.kept...), strconv.Quote(level.Names[0])+":["...)
	}
	p.at[last]++
	head := len(r.buf)
	for p.count == 0 || len(r.form) > 1 && len(r.buf) < 2*head {
		if r.peek() == ']' {
			if p.count == 0 {
				r.err = r.token()
			}
			break
		}
		var value jsontext.Value
		if value, r.err = r.value(); r.err != nil {
			break
		}
		if p.count++; p.count > 1 {
			r.buf = append(r.buf, ',')
		}
		r.buf = append(r.buf, value...)
		r.way[last].next++
	}
	if p.count == 0 {
		return nil
	}
	for range r.form {
		r.buf = append(r.buf, "]}"...)
	}
	p.Value = r.buf
	return p
}
