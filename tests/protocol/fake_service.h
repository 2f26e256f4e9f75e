#pragma once
// A Service without an engine, for tests of the layers above it. A script answers each request: a list of
// steps, which are events to send, pauses, and holds until release(). During a pause or hold a request
// notices when its reader has gone, as an engine does within a step.
//
// Threading: any thread.

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "protocol/chat/chat_format.h"
#include "protocol/service.h"
#include "runtime/system.h"

namespace reprise::protocol {

struct Pause {
  std::chrono::milliseconds time;
};
struct Hold {};
struct ForEver {  // until the reader is gone
  Delta delta;
};
using ScriptStep = std::variant<Event, Pause, Hold, ForEver>;
using Script = std::vector<ScriptStep>;

class FakeService : public Service {
 public:
  using Writer = std::function<Script(const GenerateRequest&)>;

  /// The system must outlive it.
  explicit FakeService(runtime::System& system);

  /// Sets the script for further requests; initially default_script.
  void set_script(Writer writer);
  /// Ends all present and future holds.
  void release() { released_ = true; }
  void set_health(Health health);
  /// The source must compile.
  void set_chat_template(std::string source);
  /// Makes tokenize(), detokenize() and render() fail with this error; nullopt: they succeed.
  void set_ask_failure(std::optional<runtime::ErrorCode> failure);

  std::vector<GenerateRequest> requests() const;
  int live() const { return live_; }
  /// Returns the number of requests whose reader left before the end.
  int left() const { return left_; }
  int written() const { return written_; }

  runtime::StreamReader<Event> generate(GenerateRequest request) override;
  runtime::Ask<Answer<Tokenized>> tokenize(TokenizeRequest request) override;
  runtime::Ask<Answer<Detokenized>> detokenize(DetokenizeRequest request) override;
  runtime::Ask<Answer<Rendered>> render(RenderRequest request) override;
  std::vector<ModelCard> models() const override;
  Health health() const override;
  std::vector<Figure> figures() const override;
  /// Returns true if that tenant has requested such a reply, and any request is running.
  bool end_reasoning(const std::string& reply_id, const std::string& tenant) override;

 private:
  friend class FakeRequest;
  template <class T>
  runtime::Ask<Answer<T>> answer(Answer<T> value) const;

  runtime::System& system_;
  mutable std::mutex mutex_;
  Writer writer_;                                  // guarded by mutex_
  std::vector<GenerateRequest> requests_;          // guarded by mutex_
  Health health_{.ready = true};                   // guarded by mutex_
  ChatFormatPtr chat_;                             // guarded by mutex_
  std::optional<runtime::ErrorCode> ask_failure_;  // guarded by mutex_
  std::atomic<bool> released_{false};
  std::atomic<int> live_{0};
  std::atomic<int> left_{0};
  std::atomic<int> written_{0};
};

/// For each choice: Admitted, Started, one delta per text, Finished and Done.
Script reply_with(const GenerateRequest& request, const std::vector<std::string>& texts,
                  FinishReason reason = FinishReason::kStop);
/// Admitted, Started, these values and Done.
Script embed_with(const GenerateRequest& request, std::vector<float> values);
/// Returns the prompt's text, or that of the chat's last message.
std::string last_words(const GenerateRequest& request);
/// Chooses the answer by last_words(), so that clients in other processes can control it: "call a tool",
/// "think", "fail at once", "fail later", "go on for ever", "wait in the queue", "wait half way" (after the
/// first word); otherwise "Hello, world!".
Script default_script(const GenerateRequest& request);

}  // namespace reprise::protocol
