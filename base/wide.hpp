// An attribute that compiles a loop over a whole model once for each vector width.
#pragma once

// On supporting compilers, the attribute makes a version of the function for each vector width, and
// the loader picks one. No version contracts or reorders operations, so all give the same bits.
// Sanitizers cannot run before the loader has picked, so with them the macro is empty.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define GV_WIDE __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define GV_WIDE
#endif
