// Marks that callgrind knows by name: `quota` counts what a thread does between the two.
#pragma once

// Not to be inlined, nor left out for doing nothing.
extern "C" {
[[gnu::noinline]] inline void CountedBegin() { asm volatile(""); }
[[gnu::noinline]] inline void CountedEnd() { asm volatile(""); }
}
