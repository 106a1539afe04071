// Marks a function to be compiled for AVX2 as well as for every x86-64, chosen when the program
// starts. Its loops must give the same bits either way: no sums of floats in another order, no
// fused multiply-add.
#pragma once

// A macro, because an attribute cannot be named in any other way. Sanitizers instrument the
// start-up code that would choose the version before they are ready themselves, so their builds
// have one version only.
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define PACELINE_VECTORISE [[gnu::target_clones("default", "arch=x86-64-v3")]]
#else
#define PACELINE_VECTORISE
#endif
