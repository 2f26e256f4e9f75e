#pragma once
// Wrappers for wgmma and mbarrier (sources compiled for sm_90a).
//
// The four warps of a warpgroup call the wgmma functions together. Warp w has rows 16 w ... 16 w + 15 of 64,
// in the fragments of tensor_core.cuh (C in blocks of 8 columns, A of 16). Shared memory operands are
// *panels*: 64 rows of 64 bf16 with the 128-byte swizzle (swizzled_offset), aligned to 1,024 bytes.
//
// wgmma is asynchronous: begin_products(), wgmmas, end_products(). wait_for_products() must precede any use
// of the results (settle() tells the compiler) and any overwrite of the operands.

#include <cstdint>

#include "gpu/cuda/gemm/tensor_core.cuh"
#include "gpu/cuda/memory/launch.cuh"

namespace reprise::gpu::cuda {

inline bool has_warpgroups() {
  return compute_capability() == 90;
}

inline constexpr int kPanelColumns = 64;
inline constexpr int kPanelBytes = 64 * 128;

/// Byte offset in a panel of 16-byte piece `piece` of a row.
__device__ __forceinline__ std::uint32_t swizzled_offset(int row, int piece) {
  return static_cast<std::uint32_t>(row * 128 + ((piece ^ (row & 7)) << 4));
}

/// Returns the wgmma matrix descriptor of consecutive panels: 128-byte swizzle, 1,024 bytes between groups of
/// 8 rows.
__device__ __forceinline__ std::uint64_t panels_at(std::uint32_t address) {
  constexpr std::uint64_t kSwizzle128 = std::uint64_t{1} << 62;
  constexpr std::uint64_t kStride = std::uint64_t{1024 >> 4} << 32;
  constexpr std::uint64_t kNextPanel = std::uint64_t{kPanelBytes >> 4} << 16;
  return ((address & 0x3ffffU) >> 4) | kNextPanel | kStride | kSwizzle128;
}
/// Advances a descriptor by `bytes`.
__device__ __forceinline__ std::uint64_t advance_descriptor(std::uint64_t panels, int bytes) {
  return panels + static_cast<std::uint64_t>(bytes >> 4);
}

__device__ __forceinline__ void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void end_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until at most kPending groups are incomplete.
template <int kPending>
__device__ __forceinline__ void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
/// Keeps the compiler from reading results before this point.
template <int kBlocks>
__device__ __forceinline__ void settle(float (&c)[kBlocks][4]) {
#pragma unroll
  for (int i = 0; i < kBlocks; ++i) {
    asm volatile("" : "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])::"memory");
  }
}
/// Makes shared memory writes of this thread, and of threads it has synchronized with, visible to wgmma.
__device__ __forceinline__ void make_visible_to_wgmma() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

#define REPRISE_BLOCK(x) "+f"((x)[0]), "+f"((x)[1]), "+f"((x)[2]), "+f"((x)[3])
#define REPRISE_FOUR_BLOCKS(x, i)                                                    \
  REPRISE_BLOCK((x)[(i)]), REPRISE_BLOCK((x)[(i) + 1]), REPRISE_BLOCK((x)[(i) + 2]), \
      REPRISE_BLOCK((x)[(i) + 3])

/// y (+)= a x^T for k = 16, `a` 64 rows in fragments, x 64 rows in a panel.
__device__ __forceinline__ void multiply_rows(float (&y)[8][4], const std::uint32_t (&a)[4], std::uint64_t x,
                                              bool adds) {
  asm volatile(
      "{.reg .pred adds;"
      "setp.ne.b32 adds, %37, 0;"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, {%32, %33, %34, %35}, %36, adds, 1, 1, 0;}"
      : REPRISE_FOUR_BLOCKS(y, 0), REPRISE_FOUR_BLOCKS(y, 4)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(x), "r"(static_cast<int>(adds)));
}

/// c (+)= a b^T for k = 16, 64 rows of `a` and kColumns rows of `b`, both in consecutive panels.
template <int kColumns>
struct PanelProduct;
template <>
struct PanelProduct<32> {
  static __device__ __forceinline__ void multiply(float (&c)[4][4], std::uint64_t a, std::uint64_t b,
                                                  bool adds) {
    asm volatile(
        "{.reg .pred adds;"
        "setp.ne.b32 adds, %18, 0;"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
        "}, %16, %17, adds, 1, 1, 0, 0;}"
        : REPRISE_FOUR_BLOCKS(c, 0)
        : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
  }
};
template <>
struct PanelProduct<64> {
  static __device__ __forceinline__ void multiply(float (&c)[8][4], std::uint64_t a, std::uint64_t b,
                                                  bool adds) {
    asm volatile(
        "{.reg .pred adds;"
        "setp.ne.b32 adds, %34, 0;"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
        "}, %32, %33, adds, 1, 1, 0, 0;}"
        : REPRISE_FOUR_BLOCKS(c, 0), REPRISE_FOUR_BLOCKS(c, 4)
        : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
  }
};
template <>
struct PanelProduct<128> {
  static __device__ __forceinline__ void multiply(float (&c)[16][4], std::uint64_t a, std::uint64_t b,
                                                  bool adds) {
    asm volatile(
        "{.reg .pred adds;"
        "setp.ne.b32 adds, %66, 0;"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
        "}, %64, %65, adds, 1, 1, 0, 0;}"
        : REPRISE_FOUR_BLOCKS(c, 0), REPRISE_FOUR_BLOCKS(c, 4), REPRISE_FOUR_BLOCKS(c, 8),
          REPRISE_FOUR_BLOCKS(c, 12)
        : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
  }
};
template <>
struct PanelProduct<256> {
  static __device__ __forceinline__ void multiply(float (&c)[32][4], std::uint64_t a, std::uint64_t b,
                                                  bool adds) {
    asm volatile(
        "{.reg .pred adds;"
        "setp.ne.b32 adds, %130, 0;"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63,"
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79,"
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95,"
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111,"
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
        "}, %128, %129, adds, 1, 1, 0, 0;}"
        : REPRISE_FOUR_BLOCKS(c, 0), REPRISE_FOUR_BLOCKS(c, 4), REPRISE_FOUR_BLOCKS(c, 8),
          REPRISE_FOUR_BLOCKS(c, 12), REPRISE_FOUR_BLOCKS(c, 16), REPRISE_FOUR_BLOCKS(c, 20),
          REPRISE_FOUR_BLOCKS(c, 24), REPRISE_FOUR_BLOCKS(c, 28)
        : "l"(a), "l"(b), "r"(static_cast<int>(adds)));
  }
};

/// out += a V for 16 keys, `a` 64 rows in fragments, V [16 keys, kColumns] in panels of 64 keys.
template <int kColumns>
struct ValueProduct;
template <>
struct ValueProduct<128> {
  static __device__ __forceinline__ void multiply_add(float (&out)[16][4], const std::uint32_t (&a)[4],
                                                      std::uint64_t values) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
        "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
        : REPRISE_FOUR_BLOCKS(out, 0), REPRISE_FOUR_BLOCKS(out, 4), REPRISE_FOUR_BLOCKS(out, 8),
          REPRISE_FOUR_BLOCKS(out, 12)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(values));
  }
};
template <>
struct ValueProduct<256> {
  static __device__ __forceinline__ void multiply_add(float (&out)[32][4], const std::uint32_t (&a)[4],
                                                      std::uint64_t values) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63,"
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79,"
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95,"
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111,"
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
        "}, {%128, %129, %130, %131}, %132, 1, 1, 1, 1;"
        : REPRISE_FOUR_BLOCKS(out, 0), REPRISE_FOUR_BLOCKS(out, 4), REPRISE_FOUR_BLOCKS(out, 8),
          REPRISE_FOUR_BLOCKS(out, 12), REPRISE_FOUR_BLOCKS(out, 16), REPRISE_FOUR_BLOCKS(out, 20),
          REPRISE_FOUR_BLOCKS(out, 24), REPRISE_FOUR_BLOCKS(out, 28)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(values));
  }
};

#undef REPRISE_FOUR_BLOCKS
#undef REPRISE_BLOCK

/// An mbarrier in shared memory: a phase completes after `arrivals` arrivals.
class Barrier {
 public:
  __device__ void init(int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address()), "r"(arrivals) : "memory");
  }
  __device__ void arrive() {
    asm volatile("{.reg .b64 state; mbarrier.arrive.shared.b64 state, [%0];}" ::"r"(address()) : "memory");
  }
  /// Arrives when all cp.async copies of this thread have landed.
  __device__ void arrive_after_copies() {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(address()) : "memory");
  }
  /// Waits for phase `time`, from 0. Requires: the waiter is less than two phases behind.
  __device__ void wait(int time) {
    asm volatile(
        "{.reg .pred passed;"
        "again:"
        "mbarrier.try_wait.parity.shared.b64 passed, [%0], %1;"
        "@passed bra done;"
        "bra again;"
        "done:}" ::"r"(address()),
        "r"(time & 1)
        : "memory");
  }

 private:
  __device__ std::uint32_t address() const { return shared_address(&state_); }
  std::uint64_t state_;
};

}  // namespace reprise::gpu::cuda
