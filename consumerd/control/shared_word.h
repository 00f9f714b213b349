/* A word of the state file, which others write at the same time. */
#ifndef PLUMB_CONSUMERD_CONTROL_SHARED_WORD_H
#define PLUMB_CONSUMERD_CONTROL_SHARED_WORD_H

namespace plumb {

template <typename T>
T load_shared(const T& word) {
    return __atomic_load_n(&word, __ATOMIC_SEQ_CST);
}

} // namespace plumb

#endif
