#pragma once
// The experts of a mixture that a router chooses from (models/parts/moe.h), on the CPU: for rows whose experts are
// known, the sum of what those make of them. The weights of experts that no row chose are not read. Adapters change none
// of them.
//
// Exactness: each expert's products are row by row, whoever else is there; what they give is added in ascending order of
// the experts. So the bits of a row depend on neither the batch nor the threads.
//
// Threading: as Step.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/cpu/expert_rows.h"
#include "models/cpu/linear.h"
#include "models/parts/moe.h"

namespace reprise::models {

/// One expert's matrices.
struct Expert {
  Expert(const Checkpoint& checkpoint, const std::string& name, bool has_gate);
  void prepare(const Preparation& how) const;

  Linear gate;  // of no use where experts have none
  Linear up;
  Linear down;
};

class Experts {
 public:
  /// More rows are computed in turns: what is kept for every row and expert would outgrow the model.
  static constexpr std::size_t kMostRowsAtOnce = 1024;

  /// What a router decided for some rows.
  struct Choice {
    std::span<const std::uint32_t> experts;  // [rows, spec.chosen]: ascending in a row
    std::span<const float> weights;          // [rows, spec.chosen]
  };

  /// An expert that all rows go through, computed at the same time.
  struct Beside {
    const Expert* expert;
    LinearInput* x;  // [rows, hidden]
    float* y;        // [rows, hidden]
  };

  /// Throws LoadError.
  Experts(const MoeSpec& spec, const Checkpoint& checkpoint);
  void prepare(const Preparation& how) const;

  /// x [rows, width] -> y [rows, width], at most kMostRowsAtOnce of them. `beside`: null: there is none. What it takes of
  /// the step's scratch is the caller's to give back.
  void sum(Step& step, LinearInput& x, const Choice& choice, const Beside* beside, float* y) const;

 private:
  /// An expert at work: its rows, from the input to the output.
  struct Run;

  std::vector<Run> make_runs(Step& step, LinearInput& x, const ExpertRows& rows, const Beside* beside,
                             float* outputs) const;
  void take_memory(Step& step, std::vector<Run>& runs) const;
  void compute_inner(Step& step, const std::vector<Run>& runs) const;
  static void compute_outputs(Step& step, const std::vector<Run>& runs);

  const MoeSpec spec_;
  std::vector<Expert> experts_;
};

}  // namespace reprise::models
