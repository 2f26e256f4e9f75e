#pragma once
// Parts that project their rows, mix them with what their sequences remember, and project what came of it back to the stream:
//   y = out(mix(in(x)))
// The base has the two products, their memory and what follows from them; a mixer has what lies between.
//
// Threading: as CudaStep.

#include <utility>
#include <vector>

#include "models/cuda/part.h"

namespace reprise::models::cuda {

class Mixer : public Part {
 public:
  std::size_t workspace(const StepSize& size) const final;
  void apply(const CudaStep& step, const PartInput& x, const PartOutput& to) const final;
  bool takes_raw(const CudaStep& step) const final { return joins() && step.takes_raw(in_); }
  bool reads_unscaled() const final { return joins() && in_.reads_unscaled(); }
  bool leaves_rows() const final { return joins() && out_.leaves_rows(); }
  void admit(const Admission& admission, gc::GemmOutput output) const final;
  std::vector<const DeviceLinear*> adaptable() const final;

 protected:
  /// Where decoded rows get their norms: by kernels of their own, or within the products before and behind the norm, which only
  /// mixers whose rows were compared on a GPU do.
  enum class Norms { kApart, kInProducts };

  Mixer(DeviceLinear in, DeviceLinear out, Norms norms)
      : in_(std::move(in)), out_(std::move(out)), norms_(norms) {}

  const DeviceLinear& in() const { return in_; }
  const DeviceLinear& out() const { return out_; }

  /// Bytes that mix() takes of the workspace.
  virtual std::size_t mixing_workspace(const StepSize& size) const = 0;
  /// projected [padded rows, in().weight.rows] -> mixed [padded rows, out().weight.columns].
  virtual void mix(const CudaStep& step, const gc::Bf16* projected, gc::Bf16* mixed) const = 0;
  /// The same of a precise step.
  virtual void mix(const CudaStep& step, const float* projected, float* mixed) const = 0;

  /// A product between the two, and what it makes.
  struct InnerProduct {
    const DeviceLinear* linear;
    gc::GemmOutput output;
    bool adapts = true;  // whether adapters can change it
  };
  virtual std::vector<InnerProduct> inner_products() const { return {}; }

 private:
  template <class Row>
  void apply_rows(const CudaStep& step, const PartInput& x, const PartOutput& to) const;
  bool joins() const { return norms_ == Norms::kInProducts; }

  DeviceLinear in_;
  DeviceLinear out_;
  Norms norms_;
};

/// A mixer whose template mix_rows() is for both kinds of rows.
template <class Self>
class MixerOfRows : public Mixer {
 protected:
  using Mixer::Mixer;

 private:
  void mix(const CudaStep& step, const gc::Bf16* projected, gc::Bf16* mixed) const final {
    static_cast<const Self&>(*this).mix_rows(step, projected, mixed);
  }
  void mix(const CudaStep& step, const float* projected, float* mixed) const final {
    static_cast<const Self&>(*this).mix_rows(step, projected, mixed);
  }
};

}  // namespace reprise::models::cuda
