#pragma once
// The GPU's own line in Tracy: kernels, copies and waits as the GPU itself has timed them (CUPTI), without a word from
// whoever launches them.
//
// They are watched only while a profiler is connected, for watching costs something with every launch. CUPTI admits one user
// in a process: a program under Nsight has no such line.
//
// Where cmake/RepriseTracy.cmake does not find all that it takes, this is empty. One line does for all GPUs and streams of
// the process. Threading: any thread.

namespace reprise::traces {

#if defined(REPRISE_TRACY_CUDA)

/// To be called before work is launched: begins when somebody has connected, ends when they have gone.
void follow_gpu();

#else

inline void follow_gpu() {}

#endif

}  // namespace reprise::traces
