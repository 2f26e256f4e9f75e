// From the residual to logits, and sampling.

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"
#include "gpu/cuda/gemm/gemm.h"
#include "gpu/cuda/rows/rows.h"
#include "gpu/cuda/rows/sampling.h"
#include "models/cuda/model.h"

namespace reprise::models::cuda {
namespace {

/// Grows `bytes` to at least `size`; returns whether it was reallocated.
template <class Bytes>
bool reserve(Bytes& bytes, std::size_t size) {
  if (size <= bytes.size()) return false;
  bytes = Bytes(std::bit_ceil(size));
  return true;
}

}  // namespace

void Head::multiply_unscaled(const CudaStep& step, const PickedRows& picked, float* logits) const {
  const int hidden = linear.weight.columns;
  gc::DeferredNormRows rows = step.unscaled;
  if (picked.count != step.size.rows) {
    const auto elements = static_cast<std::size_t>(picked.count) * static_cast<std::size_t>(hidden);
    rows.x = step.workspace.take<gc::Bf16>(elements);
    rows.squares = step.workspace.take<float>(elements / 8);
    gc::pick_rows(step.unscaled, picked.rows, picked.count, hidden, rows, step.stream);
  }
  rows.eps = norm.kind.eps;
  linear.weight.format->fused->unscaled(rows, picked.count, linear.weight, logits, gc::GemmOutput::kF32,
                                        step.stream);
}

void Head::multiply(const CudaStep& step, const gc::Bf16* x, int rows, float* logits) const {
  gc::decode_gemm(x, rows, linear.weight, logits, gc::GemmOutput::kF32, step.stream);
}

void Head::multiply(const CudaStep& step, const float* x, int rows, float* logits) const {
  const std::size_t elements =
      static_cast<std::size_t>(rows) * static_cast<std::size_t>(linear.weight.columns);
  const gc::TwoTerms terms{.high = step.workspace.take<gc::Bf16>(elements),
                           .low = step.workspace.take<gc::Bf16>(elements)};
  gc::split_rows(x, rows, linear.weight.columns, terms, step.stream);
  multiply(step, terms.high, rows, logits);
  gc::decode_gemm(terms.low, rows, linear.weight, logits, gc::GemmOutput::kAddF32, step.stream);
}

template <class Row>
void Head::multiply_normed(const CudaStep& step, const float* x, const PickedRows& picked,
                           float* logits) const {
  const int hidden = linear.weight.columns;
  auto* normed =
      step.workspace.take<Row>(static_cast<std::size_t>(picked.count) * static_cast<std::size_t>(hidden));
  gc::rms_norm(x, picked.rows, picked.count, hidden, norm.rows(), 1, normed, step.stream);
  multiply(step, normed, picked.count, logits);
  if (linear.bias != nullptr) gc::add_bias(logits, picked.count, outputs(), linear.bias, step.stream);
  if (picked.adapters.empty()) return;
  CudaStep of_picked = step;
  of_picked.adapters = picked.adapters;
  of_picked.add_changes(normed, linear, logits, gc::GemmOutput::kF32);
}

void Head::apply(const CudaStep& step, const float* x, const PickedRows& picked, float* logits) const {
  const std::size_t mark = step.workspace.mark();
  if (step.size.precise) {
    multiply_normed<float>(step, x, picked, logits);
  } else if (reads_unscaled_ && step.unscaled.x != nullptr) {
    multiply_unscaled(step, picked, logits);
  } else {
    multiply_normed<gc::Bf16>(step, x, picked, logits);
  }
  if (multiplier != 1 || cap != 0) {
    gc::scale(logits, picked.count, outputs(), multiplier, cap, step.stream);
  }
  step.workspace.reset(mark);
}

void DeviceSampler::prepare(std::span<const std::optional<SamplePlan>> plans, int vocab) {
  rows_ = static_cast<int>(plans.size());
  vocab_ = vocab;
  std::size_t changes = 0;
  std::size_t masked = 0;
  for (const auto& plan : plans) {
    changes += plan ? plan->adjustments.size() : 0;
    masked += plan && plan->masks ? 1 : 0;
  }
  const auto mask_words = (static_cast<std::size_t>(vocab) + 31) / 32;
  for (const bool moved : {reserve(params_, plans.size() * sizeof(gc::SamplingRow)),
                           reserve(adjustments_, changes * sizeof(gc::LogitAdjustment)),
                           reserve(masks_, masked * mask_words * sizeof(std::uint32_t)),
                           reserve(out_, plans.size() * sizeof(gc::SampledToken)),
                           reserve(workspace_, gc::sampling_workspace(rows_))}) {
    if (moved) ++moves_;
  }
  auto* params = reinterpret_cast<gc::SamplingRow*>(params_.data());
  auto* adjustments = reinterpret_cast<gc::LogitAdjustment*>(adjustments_.data());
  auto* masks = reinterpret_cast<std::uint32_t*>(masks_.data());
  std::int32_t next = 0;
  std::size_t mask_word = 0;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    gc::SamplingRow row{.temperature = 0};
    if (const auto& plan = plans[i]) {
      row = {.temperature = plan->temperature,
             .top_p = plan->top_p,
             .min_p = plan->min_p,
             .u = gc::fixed_uniform(plan->noise),
             .top_k = static_cast<std::int32_t>(
                 std::min<std::int64_t>(plan->top_k, std::numeric_limits<std::int32_t>::max())),
             .first_adjustment = next,
             .adjustments = static_cast<std::int32_t>(plan->adjustments.size())};
      for (const SamplePlan::Adjustment& change : plan->adjustments) {
        adjustments[next++] = {.token = change.token,
                               .bias = change.bias,
                               .penalty = change.penalty,
                               .subtract = change.subtracted};
      }
      if (plan->masks) {
        const SharedMask mask = plan->masks->at(plan->step);
        REPRISE_CHECK(mask != nullptr && mask->bits.size() == mask_words,
                      "the grammar mask of a sampled row is missing or of another size");
        row.first_mask_word = static_cast<std::int32_t>(mask_word);
        std::copy(mask->bits.begin(), mask->bits.end(), masks + mask_word);
        mask_word += mask_words;
      }
    }
    params[i] = row;
  }
}

void DeviceSampler::launch(float* logits, int stride, gc::StreamHandle stream) {
  gc::sample(logits, rows_, vocab_, stride, reinterpret_cast<const gc::SamplingRow*>(params_.data()),
             reinterpret_cast<const gc::LogitAdjustment*>(adjustments_.data()),
             reinterpret_cast<const std::uint32_t*>(masks_.data()), workspace_.data(),
             reinterpret_cast<gc::SampledToken*>(out_.data()), stream);
}

std::vector<std::optional<DecodePass::Drawn>> DeviceSampler::results(
    std::span<const std::optional<SamplePlan>> plans) const {
  const auto* out = reinterpret_cast<const gc::SampledToken*>(out_.data());
  std::vector<std::optional<DecodePass::Drawn>> drawn(plans.size());
  for (std::size_t i = 0; i < plans.size(); ++i) {
    if (!plans[i]) continue;
    DecodePass::Drawn& one = drawn[i].emplace();
    one.token = out[i].token;
    one.finite = (out[i].health & gc::SampledToken::kNotFinite) == 0;
    if (one.token >= 0) continue;
    const bool usable = (out[i].health & gc::SampledToken::kUsable) != 0;
    one.error = !usable           ? SampleError::kNoLogits
                : plans[i]->masks ? SampleError::kNoneAllowed
                                  : SampleError::kAllBanned;
  }
  return drawn;
}

}  // namespace reprise::models::cuda
