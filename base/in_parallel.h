#pragma once
// Work on bytes, cut into parts that do not touch each other, by a few threads that live for one call.
//
// Bound: kMostThreads, and no more than the machine has cores for. Threading: any thread; it waits for all of it.

#include <cstddef>
#include <functional>

namespace reprise {

/// Calls work(part) once for each part 0 ... parts - 1, begun in that order, on this thread and, where there are more
/// than `parts_a_thread`, on others; returns when all are done. `work` must not throw.
void in_parallel(std::size_t parts, const std::function<void(std::size_t)>& work,
                 std::size_t parts_a_thread = 8);

/// How many threads that would be.
std::size_t threads_for(std::size_t parts, std::size_t parts_a_thread);

}  // namespace reprise
