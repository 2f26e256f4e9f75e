#pragma once
// Which rows go through which expert, expert by expert: each has its rows side by side, so that its weights are read
// once for all of them.
//
// A place is one row at one expert. Places are numbered expert by expert, those of an expert in the order of its
// rows; the experts that nobody chose have none.
//
// Threading: filled by one thread, constant afterwards.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "models/cpu/linear.h"
#include "models/cpu/step.h"

namespace reprise::models {

class ExpertRows {
 public:
  struct Run {
    std::size_t expert;
    std::size_t first;  // place
    std::size_t count;  // at least 1
  };

  /// chosen [rows, per_row]: an expert at most once in a row.
  ExpertRows(std::span<const std::uint32_t> chosen, std::size_t per_row, std::size_t experts);

  /// In ascending order of the experts.
  const std::vector<Run>& runs() const { return runs_; }
  std::size_t places() const { return row_at_.size(); }
  /// Of each place.
  std::span<const std::uint32_t> row_at() const { return row_at_; }
  /// Of a row's experts, in the order in which it chose them.
  std::span<const std::uint32_t> places_of(std::size_t row) const {
    return std::span(place_of_).subspan(row * per_row_, per_row_);
  }
  /// The run's rows follow each other in the input as well.
  bool is_consecutive(const Run& run) const {
    return row_at_[run.first + run.count - 1] - row_at_[run.first] + 1 == run.count;
  }

 private:
  std::size_t per_row_;
  std::vector<Run> runs_;
  std::vector<std::uint32_t> row_at_;    // [places]
  std::vector<std::uint32_t> place_of_;  // [rows, per_row]
};

/// The rows of an input as its experts want them: of a run one behind the other, in the form of a product. From the
/// step's scratch, as LinearInput.
class GatheredInput {
 public:
  GatheredInput(LinearInput& input, const ExpertRows& rows, std::size_t columns)
      : input_(input), rows_(rows), columns_(columns) {}

  /// [run.count rows in this form]
  const void* of(const ExpertRows::Run& run, const gpu::ActivationForm& form, Step& step);

 private:
  const std::byte* gathered(const gpu::ActivationForm& form, const std::byte* from, std::size_t row_bytes,
                            Step& step);

  LinearInput& input_;
  const ExpertRows& rows_;
  std::size_t columns_;
  std::vector<std::pair<const gpu::ActivationForm*, const std::byte*>> gathered_;  // [places] rows each
};

/// Of one row in a form, from the beginning of one to that of the next.
std::size_t row_bytes_of(const gpu::ActivationForm& form, std::size_t columns);

}  // namespace reprise::models
