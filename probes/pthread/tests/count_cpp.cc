// The locks of the C++ library: std::mutex and its relatives reach the probe through the pthread functions.
// Counts for itself and prints as count_locks.c does.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

namespace {

struct Counts {
    std::atomic<unsigned long> acquired{0}, released{0}, trylock_failed{0}, lock_failed{0};
};

std::mutex plain;
std::recursive_mutex recursive;
std::timed_mutex timed;
std::shared_mutex shared;
std::mutex guarded;
std::condition_variable changed;
Counts plain_counts, recursive_counts, timed_counts, shared_counts, guarded_counts;
int value = 0;

template <typename Mutex>
void lock_and_unlock(Mutex& mutex, Counts& counts) {
    mutex.lock();
    ++counts.acquired;
    ++counts.released;
    mutex.unlock();
}

void contend(int rounds) {
    for (int round = 0; round < rounds; ++round) {
        lock_and_unlock(plain, plain_counts);
        {
            recursive.lock();
            ++recursive_counts.acquired;
            lock_and_unlock(recursive, recursive_counts);
            ++recursive_counts.released;
            recursive.unlock();
        }
        if (timed.try_lock_for(std::chrono::microseconds(50))) {
            ++timed_counts.acquired;
            ++timed_counts.released;
            timed.unlock();
        } else {
            ++timed_counts.lock_failed;
        }
        if (plain.try_lock()) {
            ++plain_counts.acquired;
            ++plain_counts.released;
            plain.unlock();
        } else {
            ++plain_counts.trylock_failed;
        }
        shared.lock_shared();
        ++shared_counts.acquired;
        ++shared_counts.released;
        shared.unlock_shared();
        lock_and_unlock(shared, shared_counts);
    }
}

void wait_for(int wanted) {
    std::unique_lock lock(guarded);
    ++guarded_counts.acquired;
    while (value < wanted) {
        ++guarded_counts.released;
        changed.wait_for(lock, std::chrono::milliseconds(5));
        ++guarded_counts.acquired;
    }
    ++guarded_counts.released;
}

void print(const char* type, void* object, const char* name, const Counts& counts) {
    std::printf("%s %p %s acquired=%lu released=%lu trylock_failed=%lu lock_failed=%lu\n", type, object, name,
                counts.acquired.load(), counts.released.load(), counts.trylock_failed.load(),
                counts.lock_failed.load());
}

} // namespace

int main() {
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
        threads.emplace_back(contend, 1000);
    threads.emplace_back(wait_for, 50);
    for (int i = 0; i < 50; ++i) {
        {
            std::lock_guard lock(guarded);
            ++guarded_counts.acquired;
            ++value;
            ++guarded_counts.released;
        }
        changed.notify_all();
        std::this_thread::yield();
    }
    for (auto& thread : threads)
        thread.join();
    print("mutex", plain.native_handle(), "plain", plain_counts);
    print("mutex", recursive.native_handle(), "recursive", recursive_counts);
    print("mutex", timed.native_handle(), "timed", timed_counts);
    print("mutex", guarded.native_handle(), "guarded", guarded_counts);
    print("rwlock", shared.native_handle(), "shared", shared_counts);
}
