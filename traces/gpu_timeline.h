#pragma once
// A line in Tracy with the GPU's kernels, copies and waits, as timed by CUPTI; callers need no annotations.
// One line has all GPUs and streams of the process.
//
// Active only while a profiler is connected, because CUPTI adds cost to each launch. CUPTI allows one user
// per process, so under Nsight there is no such line. Compiled out unless cmake/RepriseTracy.cmake finds what
// it needs. Threading: any thread.

namespace reprise::traces {

#if defined(REPRISE_TRACY_CUDA)

/// Starts when a profiler has connected, stops when it has disconnected. Call before launching work.
void follow_gpu();

#else

inline void follow_gpu() {}

#endif

}  // namespace reprise::traces
