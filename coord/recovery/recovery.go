// Package recovery decides what to do about a failure: a pure function from the
// history of a case and a policy to one action with a reason. It knows no clock,
// no storage, no network, no randomness but [Draw], and no floating point.
package recovery
