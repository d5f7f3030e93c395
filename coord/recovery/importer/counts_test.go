package importer

import (
	"context"
	"strings"
	"testing"

	"recoveryledger/coord/recovery/scenario"
)

// TestTokensBeforeAMistake: whoever ends the import at the first wrong token has read no workflow.
func TestTokensBeforeAMistake(t *testing.T) {
	counts := new(Counts)
	text := ectToken("x", "exec+jwt", `{"iss":"x","jti":"a","wid":"w1","exec_act":"read"}`) + "\noh\n"
	for _, err := range Import(ECT, "file", strings.NewReader(text), counts) {
		if err == nil {
			t.Error("the second line is a token")
		}
		break
	}
	if got, want := counts.String(), "tokens taken: 0 of 1; left: 1 that could not be used"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// An import that ends by an interrupt, or by an error that is not about the file, accuses no
// record: what was read of cases that nobody took up does not count as read.
func TestInterruptedImportsAccuseNoRecord(t *testing.T) {
	row := func(name string) string { return `{"case":"` + name + `","seq":0,"class":"ok"}` + "\n" }
	spans := strings.Join([]string{rowOf(1, 1), rowOf(2, 1), rowOf(2, 2), rowOf(3, 1)}, "\n")
	token := func(id, workflow string) string {
		return ectToken("x", "exec+jwt", `{"iss":"x","jti":"`+id+`","wid":"`+workflow+`","exec_act":"read"}`) + "\n"
	}
	for _, c := range []struct {
		format Format
		text   string
		want   string
	}{
		{OpenAIChat, chatNamed("a") + "\noh\n" + chatNamed("b") + "\n" + chatNamed("c"), "records taken: 1 of 2; left: 1 that could not be used; without a step, because no tool is called: 1"},
		{Attempts, `{"case":"x","seq":5}` + "\n" + row("a") + row("b") + row("c"), "records taken: 1 of 2; left: 1 that could not be used"},
		{Attempts, row("a") + row("b"), "records taken: 1 of 1"},
		{OpenInference, spans, "spans taken: 1 of 1"},
		{ECT, token("a", "w1") + token("b", "w2") + token("c", "w3") + token("d", "w3"), "tokens taken: 1 of 1"},
	} {
		counts, cases := new(Counts), 0
		for _, err := range Import(c.format, "file", strings.NewReader(c.text), counts) {
			if _, unreadable := err.(*scenario.Error); unreadable { //nolint:errorlint // the sequence gives it bare
				continue
			}
			if cases++; cases == 2 {
				counts.Refuse(context.Canceled)
				break
			}
		}
		if got := counts.String(); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.format, got, c.want)
		}
	}
}
