// Package recovery decides what to do about a failure: [Decide] is a pure
// function from the history of a case and a policy to one action with a reason.
// It knows no clock, no storage, no network, no randomness but [Draw], no order
// of maps and no floating point; the same arguments give the same action.
//
// A decision goes through these stages, and [Explain] tells what each found:
//
//  1. Runtime: what was asked for and never made escalates.
//  2. Effect gate: where effects are in doubt and executing again is not known
//     to be safe, they are asked for first (reconcile); what cannot be found out
//     escalates.
//  3. Guards: all are evaluated, the most severe wins, none makes the outcome
//     milder.
//  4. Rules: the first that matches gives the ladder. The history says which of
//     its rungs were used; what the case does not allow is passed over, such as
//     a rung that would repeat an effect which took place.
//  5. Limits: an attempt beyond them escalates.
//
// A policy is the member recovery of a policy file (docs/policy.md). [Load]
// refuses a file with any mistake that [Lint] finds, and a policy never changes
// afterwards.
//
// What always holds, whatever the policy: deciding again and again comes to
// escalate after a bounded number of decisions; a safety failure is never taken
// to another model; after a budget failure none is taken that is dearer; no
// model is taken twice; nothing rolls back past an irrevocable effect, and none
// is added to one that took place; an interruption costs no retries; a condition
// that cannot be evaluated escalates.
package recovery
