#include "models/cpu/host_adapter.h"

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace reprise::models::cpu {
namespace {

constexpr std::size_t kRowsAtOnce = 16;  // per work item of the GEMM with A

/// Consecutive input rows with the same change.
struct ChangedRun {
  HostAdapter::Change* change;
  std::size_t first;
  std::size_t rows;
  const gpu::Product* down;  // GEMM with A
  const gpu::Product* up;    // GEMM with B
  float* inner;              // [rows, rank]
};

void add_run(std::vector<ChangedRun>& runs, HostAdapter::Change* change, std::size_t first,
             std::size_t rows) {
  if (rows == 0) return;
  if (!runs.empty() && runs.back().change == change && runs.back().first + runs.back().rows == first) {
    runs.back().rows += rows;
  } else {
    runs.push_back({change, first, rows, nullptr, nullptr, nullptr});
  }
}

std::vector<ChangedRun> runs_of(const Step& step, const std::string& matrix, const ChangedInput& input) {
  const StepRows& which = input.which;
  REPRISE_CHECK(which.kind != StepRows::Kind::kAll || input.rows == step.rows,
                "the adapter's input does not have all rows of the step");
  std::vector<ChangedRun> runs;
  for (const AdapterRows& chosen : step.adapters) {
    HostAdapter::Change* change = chosen.adapter->find(matrix);
    if (change == nullptr) continue;
    const std::size_t end = chosen.first_row + chosen.rows;
    if (which.kind == StepRows::Kind::kListed) {
      for (std::size_t i = 0; i < input.rows; ++i) {
        if (which.list[i] >= chosen.first_row && which.list[i] < end) add_run(runs, change, i, 1);
      }
      continue;
    }
    const std::size_t begin = std::max(chosen.first_row, which.first);
    const std::size_t stop = std::min(end, which.first + input.rows);
    if (begin < stop) add_run(runs, change, begin - which.first, stop - begin);
  }
  return runs;
}

}  // namespace

HostAdapter::HostAdapter(const Adapter& adapter) {
  for (const AdapterPart& part : adapter.parts()) {
    changes_.emplace(part.name, Change{.a = gpu::HostWeight(part.a.view, part.a.data),
                                       .b = gpu::HostWeight(part.b.view, part.b.data),
                                       .scale = part.scale});
  }
}

void add_changes(Step& step, const std::string& matrix, const ChangedInput& input, float* y) {
  std::vector<ChangedRun> runs = runs_of(step, matrix, input);
  if (runs.empty()) return;
  const std::size_t mark = step.scratch.mark();
  const std::size_t inputs = runs.front().change->a.view().columns;
  const std::size_t outputs = runs.front().change->b.view().rows;

  struct Share {  // some rows of a run
    const ChangedRun* run;
    std::size_t begin;
    std::size_t end;
  };
  std::vector<Share> shares;
  std::size_t widest = 0;  // max rows of a run
  std::size_t grain = 1;
  for (ChangedRun& run : runs) {
    run.down = &run.change->a.prepare(step.kernels, gpu::Compute::kF32, step.threads);
    run.up = &run.change->b.prepare(step.kernels, gpu::Compute::kF32, step.threads);
    run.inner = step.scratch.floats(run.rows * run.change->a.view().rows);
    widest = std::max(widest, run.rows);
    grain = std::max(grain, run.up->outputs_at_once);
    for (std::size_t row = 0; row < run.rows; row += kRowsAtOnce) {
      shares.push_back({&run, row, std::min(run.rows, row + kRowsAtOnce)});
    }
  }
  step.threads.for_parts(shares.size(), [&](std::size_t i) {
    const auto& [run, begin, end] = shares[i];
    const gpu::WeightView& a = run->change->a.view();
    run->down->multiply(input.x + (run->first + begin) * inputs, end - begin, a, run->inner + begin * a.rows,
                        a.rows, 0, a.rows);
  });
  float* added = step.scratch.floats(widest * outputs);  // [rows of a run, outputs]
  step.threads.for_ranges(outputs, grain, [&](std::size_t begin, std::size_t end) {
    for (const ChangedRun& run : runs) {
      run.up->multiply(run.inner, run.rows, run.change->b.view(), added, outputs, begin, end);
      for (std::size_t row = 0; row < run.rows; ++row) {
        step.kernels.add_scaled(added + row * outputs + begin, run.change->scale,
                                y + (run.first + row) * outputs + begin, end - begin);
      }
    }
  });
  step.scratch.reset(mark);
}

}  // namespace reprise::models::cpu
