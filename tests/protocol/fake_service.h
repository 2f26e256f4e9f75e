#pragma once
// A Service without an engine, for tests of what lies in front of it: each request is answered by a script.
//
// A script is a list of steps: events to send, pauses, and holds that last until release(). While a request
// pauses or holds, it notices when its reader has gone, as an engine would within a step.
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
struct ForEver {  // until the reader has gone
  Delta delta;
};
using ScriptStep = std::variant<Event, Pause, Hold, ForEver>;
using Script = std::vector<ScriptStep>;

class FakeService : public Service {
 public:
  using Writer = std::function<Script(const GenerateRequest&)>;

  /// The system must outlive it.
  explicit FakeService(runtime::System& system);

  /// How requests are answered from now on; default_script at first.
  void set_script(Writer writer);
  /// Lets all holds go on, also those to come.
  void release() { released_ = true; }
  void set_health(Health health);
  /// There is none at first. Must compile.
  void set_chat_template(std::string source);
  /// What tokenize(), detokenize() and render() fail with from now on; nothing: they work.
  void set_ask_failure(std::optional<runtime::ErrorCode> failure);

  std::vector<GenerateRequest> requests() const;
  /// Requests being answered.
  int live() const { return live_; }
  /// Requests whose reader went away before the end.
  int left() const { return left_; }
  /// Events written, of all requests.
  int written() const { return written_; }

  runtime::StreamReader<Event> generate(GenerateRequest request) override;
  runtime::Ask<Answer<Tokenized>> tokenize(TokenizeRequest request) override;
  runtime::Ask<Answer<Detokenized>> detokenize(DetokenizeRequest request) override;
  runtime::Ask<Answer<Rendered>> render(RenderRequest request) override;
  std::vector<ModelCard> models() const override;
  Health health() const override;
  std::vector<Figure> figures() const override;
  /// True where that tenant has asked for such a reply, and some request is being answered.
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

/// Admitted, Started, one delta for each text, Finished and Done, for each of the request's choices.
Script reply_with(const GenerateRequest& request, const std::vector<std::string>& texts,
                  FinishReason reason = FinishReason::kStop);
/// Admitted, Started, these values and Done.
Script embed_with(const GenerateRequest& request, std::vector<float> values);
/// Of the prompt's text, or of the chat's last message.
std::string last_words(const GenerateRequest& request);
/// Answers by the last words of the prompt, so that a client in another process can choose: "call a tool",
/// "think", "fail at once", "fail later", "go on for ever", "wait in the queue", "wait half way" (behind the
/// first word); else "Hello, world!".
Script default_script(const GenerateRequest& request);

}  // namespace reprise::protocol
