#pragma once
// Groups the rows of a mixture of experts (models/cpu/moe.cc) by expert, so that an expert's weights are read
// once for all of its rows.
//
// A routed row is a (row, expert) pair. Routed rows are numbered expert by expert, and by row within an
// expert; experts that no row selected have none.
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
    std::size_t first;  // first routed row
    std::size_t count;  // at least 1
  };

  /// chosen [rows, per_row]: experts, each at most once per row.
  ExpertRows(std::span<const std::uint32_t> chosen, std::size_t per_row, std::size_t experts);

  /// The routed rows of each selected expert, ascending by expert.
  const std::vector<Run>& runs() const { return runs_; }
  std::size_t routed_rows() const { return row_at_.size(); }
  /// The row of each routed row.
  std::span<const std::uint32_t> row_at() const { return row_at_; }
  /// The routed rows of a row, in the order in which it selected its experts.
  std::span<const std::uint32_t> routed_rows_of(std::size_t row) const {
    return std::span(routed_row_).subspan(row * per_row_, per_row_);
  }
  /// Returns whether the run's rows are also consecutive in the input.
  bool is_consecutive(const Run& run) const {
    return row_at_[run.first + run.count - 1] - row_at_[run.first] + 1 == run.count;
  }

 private:
  std::size_t per_row_;
  std::vector<Run> runs_;
  std::vector<std::uint32_t> row_at_;      // [routed rows]
  std::vector<std::uint32_t> routed_row_;  // [rows, per_row]
};

}  // namespace reprise::models::cpu
