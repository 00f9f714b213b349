// Atomic access to plain fields of the ABI's structs, which C and the kernel share, so that they can not be
// std::atomic. The name says the order; where a weaker order than seq_cst is used with a partner, the caller
// says why.
#pragma once

#include <cstdint>

namespace plumb {

template <typename T>
inline T load_relaxed(const T& word) {
    return __atomic_load_n(&word, __ATOMIC_RELAXED);
}
template <typename T>
inline T load_acquire(const T& word) {
    return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}
template <typename T>
inline T load_seq_cst(const T& word) {
    return __atomic_load_n(&word, __ATOMIC_SEQ_CST);
}
template <typename T>
inline void store_relaxed(T& word, T value) {
    __atomic_store_n(&word, value, __ATOMIC_RELAXED);
}
template <typename T>
inline void store_release(T& word, T value) {
    __atomic_store_n(&word, value, __ATOMIC_RELEASE);
}
template <typename T>
inline void store_seq_cst(T& word, T value) {
    __atomic_store_n(&word, value, __ATOMIC_SEQ_CST);
}
template <typename T>
inline T add_seq_cst(T& word, T value) {
    return __atomic_fetch_add(&word, value, __ATOMIC_SEQ_CST);
}
template <typename T>
inline T exchange_seq_cst(T& word, T value) {
    return __atomic_exchange_n(&word, value, __ATOMIC_SEQ_CST);
}
// Whether `word` was `expected` and now is `value`; `expected` is set to what was found.
template <typename T>
inline bool compare_exchange(T& word, T& expected, T value) {
    return __atomic_compare_exchange_n(&word, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}
inline void full_fence() {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

} // namespace plumb
