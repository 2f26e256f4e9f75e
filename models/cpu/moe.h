#pragma once
// A mixture of experts on the CPU (models/layers/moe_spec.h). The weights of experts that no row of the step chose
// are not read. Adapters change none of its experts.
//
// Exactness: a row's experts and their weights follow from that row alone, in f32 arithmetic whatever the step's
// setting is; each expert's products are row by row, whoever else is there; what they give is added in ascending
// order of the experts, the shared one last. So the bits of a row depend on neither the batch nor the threads.
//
// Threading: as Step.

#include <vector>

#include "models/cpu/expert_rows.h"
#include "models/cpu/layers.h"
#include "models/cpu/linear.h"
#include "models/layers/moe_spec.h"

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
  struct Expert {
    Expert(const Checkpoint& checkpoint, const std::string& name, bool has_gate);

    Linear gate;  // of no use where experts have none
    Linear up;
    Linear down;
  };

  /// What the router decided for some rows.
  struct Routes {
    std::vector<std::uint32_t> chosen;  // [rows, spec.chosen]: experts, ascending
    std::vector<float> weights;         // [rows, spec.chosen]
    std::vector<float> shared_weights;  // [rows], or none
  };

  /// What the experts make of their rows.
  struct Outputs {
    float* routed;  // [places, width]
    float* shared;  // [rows, hidden], or null
  };

  /// An expert at work: its rows, from the input to the output.
  struct Run;

  /// Some rows of the step, from `first_row` on: x [rows, hidden] -> y [rows, hidden]
  void apply_rows(Step& step, std::size_t first_row, const float* x, std::size_t rows, float* y) const;
  Routes route(Step& step, LinearInput& x) const;
  /// `x` is what the shared expert sees, `routed` what the others do.
  std::vector<Run> make_runs(Step& step, LinearInput& x, LinearInput& routed, const ExpertRows& rows,
                             const Outputs& outputs) const;
  void compute_inner(Step& step, const std::vector<Run>& runs) const;

  const MoeSpec spec_;
  Linear router_;
  std::vector<float> bias_;  // [experts + zero experts], or none
  Linear latent_in_;         // of no use without a latent size; and so latent_out_
  Linear latent_out_;
  std::vector<Expert> experts_;
  Linear shared_gate_;          // of no use without a shared expert that has one
  std::vector<Expert> shared_;  // one, or none
};

}  // namespace reprise::models
