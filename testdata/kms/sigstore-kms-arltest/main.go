// Command sigstore-kms-arltest holds the keys of tests; see package kms.
package main

import "recoveryledger/testdata/kms"

func main() { kms.Main() }
