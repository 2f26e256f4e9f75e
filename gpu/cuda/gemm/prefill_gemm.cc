// PrefillGemm: cuBLASLt, and the wgmma kernels of prefill_products.h. For cuBLASLt the row-major [m, n] = x
// [m, k] W[n, k]^T is the column-major product of W^T (W is k x n) and x (k x m).

#include <cublasLt.h>

#include <array>
#include <cstring>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "base/digest.h"
#include "gpu/cuda/gemm/gemm.h"
#include "gpu/cuda/gemm/prefill_products.h"
#include "gpu/cuda/memory/error.h"
#include "gpu/cuda/rows/rows.h"

namespace reprise::gpu::cuda {
namespace {

void check_lt(cublasStatus_t status, const char* doing) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  if (status == CUBLAS_STATUS_ALLOC_FAILED) throw std::bad_alloc();
  throw std::runtime_error(std::string(doing) + ": " + cublasLtGetStatusString(status));
}

template <class Handle, cublasStatus_t (*kDestroy)(Handle)>
class Owned {
 public:
  Owned() = default;
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (handle_ != nullptr) kDestroy(handle_);
  }
  Handle* address() { return &handle_; }
  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};

using Description = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

template <class T>
void prefer(Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  check_lt(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof(value)),
           "cublasLtMatmulPreferenceSetAttribute");
}

struct Plan {
  Description operation;
  Layout weight;  // k x n
  Layout x;       // k x m
  Layout y;       // n x m
  cublasLtMatmulAlgo_t algorithm{};
};

using Shape = std::tuple<int, int, GemmOutput>;  // outputs, columns, kind

Shape shape_of(std::span<const DeviceWeight> parts, GemmOutput output) {
  int outputs = 0;
  for (const DeviceWeight& part : parts) outputs += part.rows;
  return {outputs, parts.front().columns, output};
}
bool is_rows(std::span<const DeviceWeight> parts) {
  return parts.size() == 1 && parts.front().format->is_rows_of_bf16;
}
/// Returns whether the split-K kernel computes it.
bool is_split_k(int outputs, int columns, GemmOutput output) {
  return output == GemmOutput::kAddF32 && can_use_split_k(outputs, columns);
}
std::size_t elements(const DeviceWeight& weight) {
  return static_cast<std::size_t>(weight.rows) * static_cast<std::size_t>(weight.columns);
}

}  // namespace

struct PrefillGemm::State {
  cublasLtHandle_t handle = nullptr;
  // key: outputs, columns, m, output kind
  std::map<std::tuple<int, int, int, GemmOutput>, std::unique_ptr<Plan>> plans;
  std::map<Shape, bool> admitted;
  std::map<Shape, bool> gated;  // true: the fused gate is bitwise identical
  DeviceBytes expanded;         // weights expanded to row-major bf16

  ~State() {
    if (handle != nullptr) cublasLtDestroy(handle);
  }

  std::unique_ptr<Plan> make(int outputs, int columns, int m, GemmOutput output) {
    auto plan = std::make_unique<Plan>();
    const cudaDataType_t y_type = output == GemmOutput::kBf16 ? CUDA_R_16BF : CUDA_R_32F;
    const cublasOperation_t transposed = CUBLAS_OP_T;
    check_lt(cublasLtMatmulDescCreate(plan->operation.address(), CUBLAS_COMPUTE_32F, CUDA_R_32F),
             "cublasLtMatmulDescCreate");
    check_lt(cublasLtMatmulDescSetAttribute(plan->operation.get(), CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                            sizeof(transposed)),
             "cublasLtMatmulDescSetAttribute");
    const auto layout = [](Layout& to, cudaDataType_t type, int rows, int columns_of) {
      check_lt(cublasLtMatrixLayoutCreate(to.address(), type, static_cast<std::uint64_t>(rows),
                                          static_cast<std::uint64_t>(columns_of), rows),
               "cublasLtMatrixLayoutCreate");
    };
    layout(plan->weight, CUDA_R_16BF, columns, outputs);
    layout(plan->x, CUDA_R_16BF, columns, m);
    layout(plan->y, y_type, outputs, m);

    Preference preference;
    check_lt(cublasLtMatmulPreferenceCreate(preference.address()), "cublasLtMatmulPreferenceCreate");
    prefer(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{0});
    prefer(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE));
    std::array<cublasLtMatmulHeuristicResult_t, 8> found{};
    int count = 0;
    check_lt(cublasLtMatmulAlgoGetHeuristic(handle, plan->operation.get(), plan->weight.get(), plan->x.get(),
                                            plan->y.get(), plan->y.get(), preference.get(),
                                            static_cast<int>(found.size()), found.data(), &count),
             "cublasLtMatmulAlgoGetHeuristic");
    for (int i = 0; i < count; ++i) {
      std::int32_t splits = 0;
      std::size_t written = 0;
      check_lt(cublasLtMatmulAlgoConfigGetAttribute(&found[i].algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &splits,
                                                    sizeof(splits), &written),
               "cublasLtMatmulAlgoConfigGetAttribute");
      if (found[i].state != CUBLAS_STATUS_SUCCESS || splits > 1) continue;
      plan->algorithm = found[i].algo;
      return plan;
    }
    throw std::runtime_error("cuBLASLt has no algorithm without split-K for a product of " +
                             std::to_string(outputs) + " x " + std::to_string(columns));
  }

  /// Returns the whole weight as row-major bf16.
  const void* rows_of(std::span<const DeviceWeight> parts, StreamHandle stream) {
    if (is_rows(parts)) return parts.front().data;
    auto* to = expanded.as<Bf16>();
    for (const DeviceWeight& part : parts) {
      part.format->expand(part, to, stream);
      to += elements(part);
    }
    return expanded.data();
  }
  PrefillWeight weight_of(std::span<const DeviceWeight> parts, StreamHandle stream) {
    const auto& [outputs, columns, kind] = shape_of(parts, GemmOutput::kBf16);
    return {.rows = static_cast<const Bf16*>(rows_of(parts, stream)),
            .outputs = outputs,
            .columns = columns,
            .is_constant = is_rows(parts)};
  }
  void reserve_expanded(std::span<const DeviceWeight> parts) {
    if (is_rows(parts)) return;
    std::size_t bytes = 0;
    for (const DeviceWeight& part : parts) bytes += elements(part) * sizeof(Bf16);
    if (bytes <= expanded.size()) return;
    expanded = DeviceBytes();  // frees the old buffer first
    expanded = DeviceBytes(bytes);
  }

  void run(const Bf16* x, int m, std::span<const DeviceWeight> parts, void* y, GemmOutput output,
           StreamHandle stream) {
    const auto& [outputs, columns, kind] = shape_of(parts, output);
    if (is_split_k(outputs, columns, kind)) {
      return add_split_k(x, m, weight_of(parts, stream), static_cast<float*>(y), stream);
    }
    std::unique_ptr<Plan>& plan = plans[{outputs, columns, m, kind}];
    if (!plan) plan = make(outputs, columns, m, kind);
    const void* weight = rows_of(parts, stream);
    const float alpha = 1;
    const float beta = output == GemmOutput::kAddF32 ? 1 : 0;
    check_lt(
        cublasLtMatmul(handle, plan->operation.get(), &alpha, weight, plan->weight.get(), x, plan->x.get(),
                       &beta, y, plan->y.get(), y, plan->y.get(), &plan->algorithm, nullptr, 0, stream),
        "cublasLtMatmul");
  }

  /// Returns whether the fused gate is bitwise identical to gate_rows() after the GEMM.
  bool gates_agree(const Bf16* x, int m, std::span<const DeviceWeight> parts) {
    const auto& [outputs, columns, kind] = shape_of(parts, GemmOutput::kBf16);
    if (!can_use_gated_prefill(outputs, columns)) return false;
    const std::size_t made = static_cast<std::size_t>(m) * static_cast<std::size_t>(outputs / 2);
    const DeviceBytes product(2 * made * sizeof(Bf16));
    const DeviceBytes separate(made * sizeof(Bf16));
    const DeviceBytes fused(made * sizeof(Bf16));
    const GatedRows to{.y = fused.as<Bf16>(), .act = GateFunction::kSilu, .gate_factor = 1};
    std::vector<Bf16> wanted(made);
    std::vector<Bf16> got(made);
    Stream stream;
    run(x, m, parts, product.data(), GemmOutput::kBf16, stream.handle());
    gate_rows(product.as<const Bf16>(), m, outputs / 2, to.act, to.gate_factor, separate.as<Bf16>(),
              stream.handle());
    multiply_gated_prefill(x, m, weight_of(parts, stream.handle()), to, stream.handle());
    copy_to_host(wanted.data(), separate.data(), separate.size(), stream.handle());
    copy_to_host(got.data(), fused.data(), fused.size(), stream.handle());
    stream.wait();
    return wanted == got;
  }
};

PrefillGemm::PrefillGemm() : state_(std::make_unique<State>()) {
  check_lt(cublasLtCreate(&state_->handle), "cublasLtCreate");
}
PrefillGemm::~PrefillGemm() = default;

void PrefillGemm::multiply(const Bf16* x, int m, std::span<const DeviceWeight> parts, void* y,
                           GemmOutput output, StreamHandle stream) {
  const auto found = state_->admitted.find(shape_of(parts, output));
  if (found != state_->admitted.end() && !found->second) {
    decode_gemm(x, m, parts, y, output, stream);
  } else {
    state_->reserve_expanded(parts);
    state_->run(x, padded(m), parts, y, output, stream);
  }
}

bool PrefillGemm::gates(std::span<const DeviceWeight> parts, int m) const {
  if (padded(m) > kMaxGatedRows) return false;
  const auto found = state_->gated.find(shape_of(parts, GemmOutput::kBf16));
  return found != state_->gated.end() && found->second;
}

void PrefillGemm::multiply_gated(const Bf16* x, int m, std::span<const DeviceWeight> parts,
                                 const GatedRows& to, StreamHandle stream) {
  state_->reserve_expanded(parts);
  multiply_gated_prefill(x, padded(m), state_->weight_of(parts, stream), to, stream);
}

std::size_t PrefillGemm::bytes() const {
  return state_->expanded.size();
}

bool PrefillGemm::admit(std::span<const DeviceWeight> parts, GemmOutput output, int max_rows) {
  state_->reserve_expanded(parts);
  const Shape shape = shape_of(parts, output);
  if (const auto found = state_->admitted.find(shape); found != state_->admitted.end()) return found->second;
  const auto outputs = static_cast<std::size_t>(std::get<0>(shape));
  const auto columns = static_cast<std::size_t>(std::get<1>(shape));
  const int largest = padded(max_rows);
  const std::size_t element = output == GemmOutput::kBf16 ? 2 : 4;
  const std::size_t kept = kGrid * outputs * element;
  Stream stream;
  // Pseudorandom x with magnitudes of bf16 activations.
  std::vector<Bf16> pattern(static_cast<std::size_t>(largest) * columns);
  std::uint32_t bits = 12345;
  for (Bf16& value : pattern) {
    bits = bits * 1664525 + 1013904223;
    value = static_cast<Bf16>((bits >> 16 & 0x8000) | (0x3d00 + (bits >> 8) % 0x400));
  }
  const DeviceBytes x(pattern.size() * sizeof(Bf16));
  const DeviceBytes y(static_cast<std::size_t>(largest) * outputs * element);
  copy_to_device(x.data(), pattern.data(), x.size(), stream.handle());
  std::vector<std::byte> first(kept);
  std::vector<std::byte> other(kept);
  bool same = true;
  for (int m = kGrid; m <= largest && same; m = m < 4 * kGrid ? m + kGrid : 2 * m) {
    fill(y.data(), 0, y.size(), stream.handle());
    state_->run(x.as<const Bf16>(), m, parts, y.data(), output, stream.handle());
    std::vector<std::byte>& to = m == kGrid ? first : other;
    copy_to_host(to.data(), y.data(), kept, stream.handle());
    stream.wait();
    same = m == kGrid || std::memcmp(first.data(), other.data(), kept) == 0;
  }
  state_->admitted[shape] = same;
  if (same && output == GemmOutput::kBf16) {
    state_->gated[shape] = state_->gates_agree(x.as<const Bf16>(), std::min(largest, kMaxGatedRows), parts);
  }
  return same;
}

std::string PrefillGemm::arithmetic() const {
  Digest digest;
  for (const auto& [shape, same] : state_->admitted) {
    const auto& [outputs, columns, output] = shape;
    for (const int number : {outputs, columns, static_cast<int>(output), static_cast<int>(same)}) {
      digest.add(static_cast<std::uint64_t>(number));
    }
    digest.add(static_cast<std::uint64_t>(is_split_k(outputs, columns, output)));
    // The plan for the smallest m; the others are bitwise identical.
    const auto plan = state_->plans.find({outputs, columns, kGrid, output});
    if (plan == state_->plans.end()) continue;
    digest.add(std::as_bytes(std::span(plan->second->algorithm.data)));
  }
  return "cublasLt " + std::to_string(cublasLtGetVersion()) + " algorithms " + std::to_string(digest.value());
}

}  // namespace reprise::gpu::cuda
