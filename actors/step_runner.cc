#include "actors/step_runner.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "traces/check.h"

namespace reprise::actors {
namespace {

using models::Model;
using models::Slice;

std::unique_ptr<Model> load(const std::string& path, const models::ComputeOptions& options,
                            gpu::Threads& threads) {
  std::unique_ptr<Model> model = Model::load(path, options, threads);
  model->checkpoint().validate();
  return model;
}

class InlineRunner : public StepRunner {
 public:
  explicit InlineRunner(std::unique_ptr<Model> model) : model_(std::move(model)) {}

  const Model& model() const override { return *model_; }
  DeviceRules rules() const override { return {}; }

  void start(StepWork& work, std::function<void()> done) override {
    try {
      std::vector<Slice> all = work.prefills;
      all.insert(all.end(), work.decodes.begin(), work.decodes.end());
      const std::span<const float> logits = model_->forward(all);
      const std::size_t decode_floats = work.decodes.size() * model_->config().vocab;
      work.prefill_logits = logits.first(logits.size() - decode_floats);
      work.decode_logits = logits.last(decode_floats);
    } catch (...) {
      work.failure = std::current_exception();
    }
    done();
  }

 private:
  std::unique_ptr<Model> model_;
};

class GridRunner : public StepRunner {
 public:
  static constexpr std::uint32_t kGrid = 64;

  GridRunner(std::unique_ptr<Model> prefill, std::unique_ptr<Model> decode)
      : prefill_(std::move(prefill)), decode_(std::move(decode)), thread_([this] { serve(); }) {}

  ~GridRunner() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  const Model& model() const override { return *prefill_; }
  DeviceRules rules() const override { return {.grid = kGrid, .decode_is_prefill = false}; }

  void start(StepWork& work, std::function<void()> done) override {
    {
      const std::lock_guard lock(mutex_);
      REPRISE_CHECK(work_ == nullptr, "two steps at once");
      work_ = &work;
      done_ = std::move(done);
    }
    changed_.notify_one();
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ending_ || work_ != nullptr; });
      if (work_ == nullptr) return;
      StepWork& work = *work_;
      const std::function<void()> done = std::move(done_);
      lock.unlock();
      compute(work);
      lock.lock();
      work_ = nullptr;
      lock.unlock();
      done();
      lock.lock();
    }
  }

  void compute(StepWork& work) {
    try {
      for (const Slice& slice : work.prefills) {
        REPRISE_CHECK(slice.sequence->stored() % kGrid == 0, "a prefill slice begins off the grid");
      }
      if (!work.prefills.empty()) work.prefill_logits = prefill_->forward(work.prefills);
      if (!work.decodes.empty()) work.decode_logits = decode_->forward(work.decodes);
    } catch (...) {
      work.failure = std::current_exception();
    }
  }

  const std::unique_ptr<Model> prefill_;
  const std::unique_ptr<Model> decode_;
  std::mutex mutex_;
  std::condition_variable changed_;
  StepWork* work_ = nullptr;    // guarded by mutex_
  std::function<void()> done_;  // guarded by mutex_
  bool ending_ = false;         // guarded by mutex_
  std::thread thread_;          // last: it uses all of the above
};

}  // namespace

std::unique_ptr<StepRunner> StepRunner::make_inline(const std::string& path,
                                                    const models::ComputeOptions& options,
                                                    gpu::Threads& threads) {
  return std::make_unique<InlineRunner>(load(path, options, threads));
}

std::unique_ptr<StepRunner> StepRunner::make_grid(const std::string& path,
                                                  const models::ComputeOptions& options,
                                                  gpu::Threads& threads) {
  models::ComputeOptions other = options;
  other.compute = options.compute == gpu::Compute::kF32 ? gpu::Compute::kAuto : gpu::Compute::kF32;
  return std::make_unique<GridRunner>(load(path, options, threads), Model::load(path, other, threads));
}

}  // namespace reprise::actors
