#include "actors/device/step_runner.h"

#include <string>
#include <utility>

#include "base/check.h"
#include "base/machine.h"
#include "traces/trace.h"

namespace reprise::actors {

// -- StepThread

StepThread::StepThread(const char* name, std::function<void()> begin, std::chrono::microseconds looks)
    : looks_(looks), thread_([this, name, begin = std::move(begin)] {
        traces::name_thread(name);
        serve(begin);
      }) {}

StepThread::~StepThread() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  has_news_.store(true, std::memory_order_relaxed);
  changed_.notify_one();
  thread_.join();
}

void StepThread::start(std::function<void()> work, std::function<void()> done) {
  {
    const std::lock_guard lock(mutex_);
    REPRISE_CHECK(!work_, "a step was started while another is running");
    work_ = std::move(work);
    done_ = std::move(done);
  }
  has_news_.store(true, std::memory_order_relaxed);  // relaxed: the mutex publishes the work
  changed_.notify_one();
}

void StepThread::look_for_work() const {
  const auto end = std::chrono::steady_clock::now() + looks_;
  while (!has_news_.load(std::memory_order_relaxed) && std::chrono::steady_clock::now() < end) {
  }
}

void StepThread::serve(const std::function<void()>& begin) {
  begin();
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ending_ || work_; });
    if (!work_) return;
    const std::function<void()> work = work_;
    const std::function<void()> done = std::move(done_);
    lock.unlock();
    work();
    lock.lock();
    work_ = nullptr;
    has_news_.store(false, std::memory_order_relaxed);  // before the caller can learn that more work may come
    lock.unlock();
    done();
    if (looks_.count() > 0) look_for_work();
    lock.lock();
  }
}

// -- steps

namespace {

using models::Model;
using models::Slice;

void compute_together(Model& model, StepWork& work) {
  models::DecodePass& decodes = work.decodes;
  std::vector<Slice> all = work.prefills;
  all.insert(all.end(), decodes.slices.begin(), decodes.slices.end());
  const std::span<const float> logits = model.forward(all);
  const std::size_t decode_floats = decodes.slices.size() * model.config().vocab;
  work.prefill_logits = logits.first(logits.size() - decode_floats);
  decodes.logits = logits.last(decode_floats);
  decodes.drawn.assign(decodes.slices.size(), std::nullopt);
}

void compute_apart(Model& model, StepWork& work) {
  static constexpr traces::ZoneSite kPrefill{"prefill slices"};
  static constexpr traces::ZoneSite kDecode{"decode"};
  static constexpr traces::ZoneSite kBoth{"prefill slices beside decode"};
  if (work.decodes.slices.empty()) {
    const traces::Zone zone(kPrefill);
    work.prefill_logits = model.forward(work.prefills);
  } else if (work.prefills.empty()) {
    const traces::Zone zone(kDecode);
    model.decode(work.decodes);
  } else {
    const traces::Zone zone(kBoth);
    work.prefill_logits = model.prefill_and_decode(work.prefills, work.decodes);
  }
}

std::string composition(const StepWork& work) {
  std::size_t tokens = 0;
  for (const Slice& slice : work.prefills) tokens += slice.tokens.size();
  return std::to_string(work.prefills.size()) + " prefills of " + std::to_string(tokens) + " tokens, " +
         std::to_string(work.decodes.slices.size()) + " decodes";
}

void compute(Model& model, StepWork& work) {
  static constexpr traces::ZoneSite kSite{"step"};
  traces::Zone zone(kSite);
  if (zone.on()) zone.text(composition(work));
  try {
    model.rules().phases_mix ? compute_together(model, work) : compute_apart(model, work);
  } catch (...) {
    work.failure = std::current_exception();
  }
}

class InlineRunner : public StepRunner {
 public:
  explicit InlineRunner(std::unique_ptr<Model> model) : model_(std::move(model)) {}

  const Model& model() const override { return *model_; }
  Model& idle_model() override { return *model_; }
  void start(StepWork& work, std::function<void()> done) override {
    compute(*model_, work);
    done();
  }

 private:
  const std::unique_ptr<Model> model_;
};

class ThreadRunner : public StepRunner {
 public:
  explicit ThreadRunner(std::unique_ptr<Model> model)
      : model_(std::move(model)),
        thread_(
            "device step", [this] { model_->bind_thread(); }, looks()) {}

  const Model& model() const override { return *model_; }
  Model& idle_model() override { return *model_; }
  void start(StepWork& work, std::function<void()> done) override {
    thread_.start([this, &work] { compute(*model_, work); }, std::move(done));
  }

 private:
  /// Spins longer than the worker usually takes between two steps (some tenths of a millisecond), unless the
  /// machine has too few cores for that.
  static std::chrono::microseconds looks() {
    constexpr unsigned kCoresToSpare = 8;
    return std::chrono::microseconds(available_processors() >= kCoresToSpare ? 500 : 0);
  }

  const std::unique_ptr<Model> model_;
  StepThread thread_;  // last: its destructor waits for a step
};

}  // namespace

std::unique_ptr<StepRunner> StepRunner::make(std::unique_ptr<Model> model) {
  if (model->rules().computes_aside) return std::make_unique<ThreadRunner>(std::move(model));
  return std::make_unique<InlineRunner>(std::move(model));
}

}  // namespace reprise::actors
