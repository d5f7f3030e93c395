package main

import "math"

// openFiles has no limit here.
func openFiles() int { return math.MaxInt }
