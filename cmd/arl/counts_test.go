package main_test

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// neverOne are texts that count things of which there is never one, or of which a
// limit speaks: their noun stays in the plural.
var neverOne = []string{
	"every command: %d bundles",            // the cast of the demo
	"the log: %d entries under the signed", // the log of the demo
	"has %d signals, the limit",            // the limit
	"has %d signals of %s, the limit",      // the limit
	"the plan touches %d domains",          // an incident over several
	"members in common",                    // the number is that of an incident
}

// TestCountsFitTheirNouns reads every text of the commands and of the fold: where a number
// stands before a noun in the plural, it would say "1 members" of one. words.Counted says
// it right, or the text says the number behind the noun. "1 of 3 members" is right as it is.
func TestCountsFitTheirNouns(t *testing.T) {
	counted := regexp.MustCompile(`%d (?:[a-z]+ )?(?:members|entries|agents|approvals|refusals|signals|incidents|records|receipts|tasks|cases|runs|steps|outcomes|` +
		`effects|pieces|retries|attempts|dispositions|domains|lines|documents|leases|keys|executions|bundles|(?:tree )?heads)\b`)
	limit := regexp.MustCompile(`the limit is|more than %d|over the limit|at most %d|of %d [a-z]`)
	texts := 0
	for _, p := range packages(t) {
		if p.name != "cmd/arl" && !strings.HasPrefix(p.name, "cmd/arl/") && p.name != "coord" {
			continue // what is wrong with a proof or a file is said in sizes
		}
		for _, file := range p.files {
			ast.Inspect(file, func(n ast.Node) bool {
				literal, ok := n.(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING {
					return true
				}
				text, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				texts++
				if !counted.MatchString(text) || limit.MatchString(text) {
					return true
				}
				for _, known := range neverOne {
					if strings.Contains(text, known) {
						return true
					}
				}
				t.Errorf("%s: %q says 1 in the plural", p.name, text)
				return true
			})
		}
	}
	if texts < 500 {
		t.Errorf("%d texts", texts)
	}
}
