package canonical

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
)

// member is a member of an object.
type member struct {
	name  string
	head  []byte // the quoted name and the colon
	path  []int  // to the field, through embedded structs
	write writer
	left  func(reflect.Value) bool // whether the member is left out; nil: never
}

// members are the members of a struct in the order of their names.
type members []member

// membersOf returns the members of a struct. It reports false if only the library knows how the
// struct is written.
func membersOf(t reflect.Type) (members, bool) {
	all, ok := fieldsOf(t, nil)
	slices.SortFunc(all, func(a, b member) int { return cmp.Compare(a.name, b.name) })
	for i := range all {
		ok = ok && (i == 0 || all[i-1].name != all[i].name)
	}
	return all, ok
}

// fieldsOf returns the members of a struct and of the structs embedded in it, in the order of the
// fields.
func fieldsOf(t reflect.Type, path []int) (all members, ok bool) {
	for i := range t.NumField() {
		f, at := t.Field(i), append(slices.Clone(path), i)
		tag, tagged := f.Tag.Lookup("json")
		switch {
		case tag == "-":
			continue
		case f.Anonymous && !tagged && f.Type.Kind() == reflect.Struct && f.IsExported() && !hasMethods(f.Type):
			inner, known := fieldsOf(f.Type, at)
			if !known {
				return nil, false
			}
			all = append(all, inner...)
			continue
		case f.Anonymous:
			return nil, false
		case !f.IsExported():
			continue
		}
		m, known := memberOf(&f, tag)
		if !known {
			return nil, false
		}
		m.path = at
		all = append(all, m)
	}
	return all, true
}

// memberOf returns the member of a field with a tag.
func memberOf(f *reflect.StructField, tag string) (m member, ok bool) {
	name, options, _ := strings.Cut(tag, ",")
	m.name = cmp.Or(name, f.Name)
	for _, c := range m.name { // other names may be quoted, escaped or ordered otherwise
		if c != '_' && (c < '0' || '9' < c) && (c < 'a' || 'z' < c) && (c < 'A' || 'Z' < c) {
			return m, false
		}
	}
	m.head = []byte(`"` + m.name + `":`)
	m.write = writerOf(f.Type)
	_, itself := reflect.PointerTo(f.Type).MethodByName("IsZero")
	switch k := f.Type.Kind(); {
	case options == "":
	case options == "omitzero" && !itself:
		m.left = reflect.Value.IsZero
	case options == "omitempty" && !hasMethods(f.Type) && (k == reflect.String || k == reflect.Slice):
		m.left = func(v reflect.Value) bool { return v.Len() == 0 }
	case options == "omitempty" && k == reflect.Pointer && f.Type.Elem().Kind() == reflect.Int64 && !hasMethods(f.Type.Elem()):
		m.left = reflect.Value.IsNil
	default:
		return m, false
	}
	return m, true
}

// write is the writer of the struct.
func (all members) write(dst []byte, v reflect.Value) ([]byte, error) {
	dst = append(dst, '{')
	first := true
	for i := range all {
		m := &all[i]
		f := v
		for _, at := range m.path {
			f = f.Field(at)
		}
		if m.left != nil && m.left(f) {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		var err error
		if dst, err = m.write(append(dst, m.head...), f); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}
