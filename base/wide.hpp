// An attribute for loops over whole models that compiles a version for each vector width.
#pragma once

// On supporting compilers, the attribute makes a version of the function for each vector width, and
// the loader picks one. No version contracts or reorders operations, so all give the same bits.
// Sanitizers cannot run before the loader has picked, so they get the plain version.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define GV_WIDE __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define GV_WIDE
#endif
