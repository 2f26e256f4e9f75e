#pragma once
// A mixture of experts on the CPU (models/parts/moe.h): the router, the experts that it chooses
// (models/cpu/experts.h), and what all rows go through.
//
// Exactness: a row's experts and their weights follow from that row alone, in f32 arithmetic whatever the step's
// setting is; what the experts make is added as models/cpu/experts.h says, the shared one's last. So the bits of a row
// depend on neither the batch nor the threads.
//
// Threading: as Step.

#include <vector>

#include "models/cpu/experts.h"
#include "models/cpu/layers.h"
#include "models/cpu/linear.h"
#include "models/parts/moe.h"

namespace reprise::models {

class Moe : public Part {
 public:
  Moe(const MoeSpec& spec, const Checkpoint& checkpoint);
  void apply(Step& step, const float* x, float* y) const override;
  void prepare(const Preparation& how) const override;
  const traces::ZoneSite& site() const override {
    static constexpr traces::ZoneSite kSite{"mixture of experts"};
    return kSite;
  }

 private:
  /// What the router decided for some rows.
  struct Routes {
    std::vector<std::uint32_t> chosen;  // [rows, spec.chosen]: experts, ascending
    std::vector<float> weights;         // [rows, spec.chosen]
    std::vector<float> shared_weights;  // [rows], or none
  };

  /// Some rows of the step, from `first_row` on: x [rows, hidden] -> y [rows, hidden]
  void apply_rows(Step& step, std::size_t first_row, const float* x, std::size_t rows, float* y) const;
  Routes route(Step& step, LinearInput& x) const;

  const MoeSpec spec_;
  Linear router_;
  std::vector<float> bias_;  // [experts + zero experts], or none
  Linear latent_in_;         // of no use without a latent size; and so latent_out_
  Linear latent_out_;
  Experts experts_;
  Linear shared_gate_;          // of no use without a shared expert that has one
  std::vector<Expert> shared_;  // one, or none
};

}  // namespace reprise::models
