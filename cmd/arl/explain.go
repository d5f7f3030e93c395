package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"recoveryledger/api"
	"recoveryledger/ledger/entry"
)

// explanation is what is known of a code.
type explanation struct {
	Code   string `json:"code"`
	Title  string `json:"title"`
	Text   string `json:"text,omitempty"`
	Remedy string `json:"remedy,omitempty"`
}

func (a *app) explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "explain [CODE]",
		Short: "Explain a problem type, an exit code, a rule or a word",
		Long: "Explain a problem type such as state-conflict, an exit code such as 5, a rule of the protocol such as REG-4,\n" +
			"or a word that commands print for a state, a result, a reason or a failure, such as NO_EFFECTS or\n" +
			"output.malformed. Without a code, list them all.",
		Example: "  arl explain policy-superseded",
		Args:    cobra.MaximumNArgs(1),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var codes []string
			for _, e := range explanations() {
				codes = append(codes, e.Code)
			}
			slices.Sort(codes)
			return slices.Compact(codes), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listExplanations()
			}
			return a.explain(args[0])
		},
	}
}

func (a *app) explain(code string) error {
	found, err := meanings(code)
	if err != nil {
		return err
	}
	var texts []string
	for _, e := range found {
		if a.settings.output == outputJSON {
			if err := a.printJSON(e); err != nil {
				return err
			}
		}
		texts = append(texts, e.text())
	}
	if a.settings.output == outputJSON {
		return nil
	}
	return a.printProse(strings.Join(texts, "\n"))
}

// meanings finds what a code means, in each of its senses. A failure may be
// written class.code or class/code, or by its code alone. FAILED and failed are
// two words: any case will do where there is no other.
func meanings(code string) (found []explanation, err error) {
	if problem, ok := api.Explain(code); ok {
		code = string(problem.Name)
	}
	failure := strings.ReplaceAll(code, "/", ".")
	all := explanations()
	for _, same := range []func(known, asked string) bool{func(known, asked string) bool { return known == asked }, strings.EqualFold} {
		var known []string
		for _, e := range all {
			_, ofClass, _ := strings.Cut(e.Code, ".")
			if same(e.Code, failure) || same(ofClass, code) && code != entry.ClassUnknown {
				found = append(found, e)
			}
			known = append(known, e.Code)
		}
		if found != nil {
			return found, nil
		}
		err = withExit(exitNotFound, fmt.Errorf("%q is no problem type, exit code, rule or word that arl prints%s", code,
			cmp.Or(suggest(code, known), " (arl explain lists them)")))
	}
	return nil, err
}

func (a *app) listExplanations() error {
	l := a.newList("CODE", "MEANS")
	for _, e := range explanations() {
		if err := l.add(e, e.Code, e.Title); err != nil {
			return err
		}
	}
	return l.close()
}

func (e *explanation) text() string {
	text := e.Code + ": " + e.Title + "\n"
	if e.Text != "" {
		text += "\n" + e.Text + "\n"
	}
	if e.Remedy != "" {
		text += "\nRemedy: " + e.Remedy + "\n"
	}
	return text
}

func explanations() []explanation {
	var all []explanation
	for _, t := range api.Types() {
		all = append(all, explanation{string(t.Name), fmt.Sprintf("%s (HTTP %d)", t.Title, t.Status), t.Text, t.Remedy})
	}
	for _, e := range exitCodes() {
		all = append(all, explanation{strconv.Itoa(e.code), "exit code: " + e.title, e.text, ""})
	}
	return slices.Concat(all, rules(), vocabulary())
}

// exitMeaning is what an exit code says.
type exitMeaning struct {
	code        int
	title, text string
}

func exitCodes() []exitMeaning {
	return []exitMeaning{
		{exitOK, "success", "What was asked for was done, and what was verified holds."},
		{exitInternal, "internal error", "Something that should not happen. The message on stderr says what; please report it."},
		{exitUsage, "usage", "The command line or the content of a given file is wrong; nothing was sent or changed. --help shows one example."},
		{exitNotFound, "not found", "A file, entry, agent, profile or ledger that was named does not exist."},
		{exitDenied, "denied", "The key may not do this (unknown-issuer, unauthorized-role), a passphrase is wrong, or the operating system refuses access."},
		{exitVerification, "verification failed", "A signature, proof or receipt does not hold against the pinned root. Do not act on what it claims."},
		{exitConflict, "conflict", "The state does not allow it: an id is taken, another policy is in force, a file exists, another process has the ledger open."},
		{exitRejected, "rejected", "A gate of the policy failed: the report of the run says which, with value and limit."},
		{exitQuorum, "quorum incomplete", "Fewer approvals than the policy asks for answer the proposal: arl incident show says how many are missing."},
		{exitUnavailable, "timeout, unavailable", "The ledger cannot be reached, or does not take entries now. Sending the same again is safe."},
		{exitInconsistent, "inconsistent log", "Two signed tree heads contradict each other, stored bytes contradict the signed head, or the log holds an entry that its rules " +
			"do not allow. The message names the file with the evidence; keep it. Of arl replay: a trace or the report does not follow " +
			"from scenario and policy."},
		{exitIncomplete, "rollback incomplete", "An incident ended PARTIAL or FAILED: some effects stand. arl incident show says which, and what their agents say of them."},
		{exitRateLimited, "rate limited", "Too many requests, or the issuer's quota of the hour is used up. Retry later with the same bytes."},
		{exitIncomparable, "not comparable", "A replay would compare different things: engine, policy, configuration or scenario is not that of the run."},
		{exitInconclusive, "inconclusive", "Nothing false was found, and something needed was not checked. Of arl verify: the signer, or that two tree heads are of one log; the message says " +
			"what to give. Of a report: it can neither promote nor reject, with too few failing cases, or a gate about what was not observed."},
		{exitIO, "input/output", "Writing or syncing failed. A ledger stops at once then: what it acknowledged is on disk, and nothing else is claimed."},
		{exitConfig, "configuration", "A setting, a profile or a policy file is wrong; the message names file, line and key."},
		{exitInterrupted, "interrupted", "A signal ended the command, or it was not confirmed."},
	}
}
