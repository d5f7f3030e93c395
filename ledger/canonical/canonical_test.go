package canonical_test

import (
	"bytes"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"recoveryledger/ledger/canonical"
)

// twoPasses is the slow reference.
func twoPasses[T any](v *T) ([]byte, error) {
	text, err := json.Marshal(v)
	if err == nil {
		err = (*jsontext.Value)(&text).Canonicalize()
	}
	return text, err
}

// word has methods of its own, a form and a zero value.
type word string

func (w word) MarshalText() ([]byte, error) { return []byte("<" + string(w) + ">"), nil }

// never is no zero value.
type never struct {
	N int64 `json:"n"`
}

func (never) IsZero() bool { return false }

type inner struct {
	B int64  `json:"b"`
	A string `json:"a,omitempty"`
}

type outer struct {
	Zulu string `json:"zulu"`
	Inner
	Many     []inner         `json:"many,omitzero"`
	Lists    [][]string      `json:"lists,omitempty"`
	None     []string        `json:"none"`
	Pointer  *int64          `json:"pointer,omitempty"`
	Null     *inner          `json:"null"`
	Itself   *outer          `json:"itself,omitzero"`
	Facts    jsontext.Value  `json:"facts,omitzero"`
	Raw      jsontext.Value  `json:"raw"`
	Word     word            `json:"word"`
	Map      map[string]int8 `json:"map,omitempty"`
	Any      any             `json:"any"`
	Bytes    []byte          `json:"bytes,omitempty"`
	Float    float64         `json:"float,omitempty"`
	When     time.Time       `json:"when,omitzero"`
	Struct   inner           `json:"struct,omitzero"`
	Bool     bool            `json:"bool,omitzero"`
	Hidden   string          `json:"-"`
	Untagged uint64
	hidden   string
}

// Inner is embedded.
type Inner struct {
	Mike int  `json:"mike"`
	Alfa bool `json:"alfa,omitzero"`
}

type hidden struct {
	Lima string `json:"lima,omitzero"`
}

// Types that the library alone knows how to write.
type (
	embedsHidden  struct{ hidden }
	embedsPointer struct{ *Inner }
	oddName       struct {
		Odd string `json:"'ö \\''"`
	}
	zeroItself struct {
		N never `json:"n,omitzero"`
	}
	twice struct {
		Inner
		Mike string `json:"mike"`
	}
	quotedNumber struct {
		N int64 `json:"n,string"`
	}
	emptyText struct {
		Alfa *string `json:"alfa,omitempty"`
	}
)

// plainOuter has nothing that the library has to write.
type plainOuter struct {
	Zulu string `json:"zulu"`
	Inner
	Many     []inner        `json:"many,omitzero"`
	Lists    [][]string     `json:"lists,omitempty"`
	None     []string       `json:"none"`
	Pointer  *int64         `json:"pointer,omitempty"`
	Null     *inner         `json:"null"`
	Itself   *plainOuter    `json:"itself,omitzero"`
	Facts    jsontext.Value `json:"facts,omitzero"`
	Struct   inner          `json:"struct,omitzero"`
	Hidden   string         `json:"-"`
	Untagged bool
	hidden   string
}

var (
	anyText = rapid.OneOf(rapid.StringMatching(`[a-z."\\/<&\x00-\x20\x7f]{0,6}`), rapid.String(),
		rapid.SampledFrom([]string{"", "\xff", "\u2028", "😀", "\u007f", "a\tb"}))
	anyNumber = rapid.OneOf(rapid.Int64(), rapid.Int64Range(-9, 9), rapid.SampledFrom([]int64{1<<53 - 1, 1 << 53, 1<<53 + 1, -1 << 53}))
	anyValue  = rapid.SampledFrom([]string{"", "{}", "[]", "null", "true", "false", `""`, "0", "-0", "-1", "01", "1.5", "1e3", "999999999999999",
		"9007199254740993", `{"a":1,"b":[2,{"c":"d"}]}`, `{"b":1,"a":2}`, `{"a":1,"a":1}`, `{"a" :1}`, `{"":0,"a":1}`, `{"ä":1,"a":2}`, `{"a":"ü\u00fc"}`,
		`{"a":"` + "\xff" + `"}`, `[1,]`, `[1 ,2]`, `{"a"}`, `{"a":}`, "tru", "nul", "x", `"`, "[", "{", `{"a":1,}`, "1 ", strings.Repeat("[", 40) + strings.Repeat("]", 40)})
)

func drawOuter(t *rapid.T) *outer {
	o := &outer{Zulu: anyText.Draw(t, "zulu"), Inner: Inner{Mike: int(anyNumber.Draw(t, "mike")), Alfa: rapid.Bool().Draw(t, "alfa")}, Hidden: "x", hidden: "y"}
	for range rapid.IntRange(0, 2).Draw(t, "many") {
		o.Many = append(o.Many, inner{anyNumber.Draw(t, "b"), anyText.Draw(t, "a")})
	}
	if rapid.Bool().Draw(t, "more") {
		o.Lists, o.Pointer, o.Null = [][]string{nil, {}, {anyText.Draw(t, "list")}}, new(anyNumber.Draw(t, "pointer")), new(inner)
		o.Map, o.Any, o.Bytes, o.Float = map[string]int8{"z": 1, "a": 2}, []any{"x", 1.5}, []byte("x"), 2.5
		o.When, o.Struct, o.Bool, o.Untagged = time.Unix(1, 0).UTC(), inner{B: 1}, true, 7
	}
	o.Facts, o.Raw = jsontext.Value(anyValue.Draw(t, "facts")), jsontext.Value(anyValue.Draw(t, "raw"))
	if rapid.Bool().Draw(t, "deeper") {
		o.Itself = &outer{Zulu: "z"}
	}
	return o
}

// TestTwoPasses holds the form of drawn values to the library, also where the library refuses them.
func TestTwoPasses(t *testing.T) {
	all, plain := canonical.Of[outer](), canonical.Of[plainOuter]()
	rapid.Check(t, func(t *rapid.T) {
		o := drawOuter(t)
		same(t, all, o)
		p := &plainOuter{Zulu: o.Zulu, Inner: o.Inner, Many: o.Many, Lists: o.Lists, Pointer: o.Pointer, Null: o.Null, Facts: o.Facts, Struct: o.Struct,
			Hidden: "x", Untagged: o.Bool, hidden: "y"}
		if o.Itself != nil {
			p.Itself = &plainOuter{None: []string{anyText.Draw(t, "none")}}
		}
		same(t, plain, p)
	})
}

// TestLibrary writes values of types that only the library knows how to write.
func TestLibrary(t *testing.T) {
	same(t, canonical.Of[embedsHidden](), &embedsHidden{hidden{"x"}})
	same(t, canonical.Of[embedsPointer](), &embedsPointer{&Inner{Mike: 1}})
	same(t, canonical.Of[oddName](), &oddName{"x"})
	same(t, canonical.Of[zeroItself](), &zeroItself{})
	same(t, canonical.Of[twice](), &twice{Inner{Mike: 1}, "x"})
	same(t, canonical.Of[quotedNumber](), &quotedNumber{7})
	same(t, canonical.Of[emptyText](), &emptyText{new(string)})
	same(t, canonical.Of[map[string]int](), &map[string]int{"b": 1, "a": 2})
}

// failer is a test, drawn or not.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func same[T any](t failer, form canonical.Form[T], v *T) {
	t.Helper()
	want, wantErr := twoPasses(v)
	got, err := form.Append([]byte("before "), v)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%v, want %v", err, wantErr)
	}
	if err == nil && string(got) != "before "+string(want) {
		t.Fatalf("%s\nwant %s", got, want)
	}
}

// FuzzValue gives JSON to the form, which is copied where it is plain: the text is what
// canonicalization makes of it.
func FuzzValue(f *testing.F) {
	for _, seed := range []string{`{"a":1,"b":[2,{"c":"d"}]}`, `{"b":1,"a":2}`, `{"a":1,"a":1}`, `[-0,10,"ü",null]`, `{"a":"\u0041"}`, `[1e3]`, "[true,false]", "nulL", `"` + "\x7f" + `"`} {
		f.Add([]byte(seed))
	}
	form := canonical.Of[jsontext.Value]()
	f.Fuzz(func(t *testing.T, text []byte) {
		v := jsontext.Value(bytes.Clone(text))
		wantErr := v.Canonicalize()
		given := jsontext.Value(text)
		got, err := form.Append(nil, &given)
		if len(text) == 0 {
			return // no value: null
		}
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("%v, want %v", err, wantErr)
		}
		if err == nil && !bytes.Equal(got, v) {
			t.Fatalf("%s, want %s", got, v)
		}
	})
}

// TestCopies writes plain JSON without an allocation: it is not parsed.
func TestCopies(t *testing.T) {
	form := canonical.Of[jsontext.Value]()
	dst := make([]byte, 0, 1<<10)
	v := jsontext.Value(`{"agent":"agents/planner","list":[1,-20,"text",true,false,null,{}],"n":` + strconv.Itoa(1<<40) + `}`)
	if n := testing.AllocsPerRun(100, func() {
		if _, err := form.Append(dst, &v); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
