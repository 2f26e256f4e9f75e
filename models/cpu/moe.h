#pragma once
// Which rows of a mixture of experts (models/cpu/moe.cc) go through which expert, expert by expert: each has its rows side by
// side, so that its weights are read once for all of them.
//
// A place is one row at one expert. Places are numbered expert by expert, those of an expert in the order of its
// rows; the experts that nobody chose have none.
//
// Threading: filled by one thread, constant afterwards.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace reprise::models::cpu {

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

}  // namespace reprise::models::cpu
