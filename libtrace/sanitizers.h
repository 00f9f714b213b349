// Whether a sanitizer is compiled in: it has functions of its own in front of the C library's, which ours must not replace.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PLUMB_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define PLUMB_SANITIZED
#endif
#endif
