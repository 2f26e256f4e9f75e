#pragma once
// Service: the requests that a front end (HTTP server, terminal, host application) can make of the engine.
// The engine's actors implement it.
//
// generate() returns a stream of events at once and reports every error in that stream. The order of events:
//
//   Admitted  Started  Delta...  Finished (one per choice)  Done     a reply
//   Admitted  Started  Embedded                             Done     an embedding
//   Failed ends the stream at any point. Progress, if requested, is sent between Admitted and Started.
//
// Admitted is sent when the request has its memory; before that it is queued. Dropping the reader cancels the
// request, whether it is queued, in prefill or decoding; its sequence is freed within a step. The stream has
// credit: a reader that does not take its events pauses its own request only.
//
// Threading: generate(), models(), health(), running(), end_reasoning() and figures() may be called from any
// thread and do not wait for the engine. The functions that return an Ask are called within an actor's turn.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "base/kv_budget.h"
#include "base/sampling.h"
#include "base/token.h"
#include "protocol/cache_report.h"
#include "protocol/error.h"
#include "protocol/grammar/constraint.h"
#include "protocol/pin.h"
#include "protocol/priority.h"
#include "runtime/ask.h"
#include "runtime/stream.h"
#include "traces/request_trace.h"

namespace reprise::protocol {

class AdapterAdmin;  // defined in protocol/server_admin.h
class ChatFormat;    // defined in protocol/chat/chat_format.h

/// The answer to a question, or why there is none.
template <class T>
using Answer = std::variant<T, Error>;

// -- requests

/// Microseconds of CPU time spent on the text work of one request (templates, tokenizer, grammars). Worker
/// threads add to it concurrently.
using TextTime = std::shared_ptr<std::atomic<std::uint64_t>>;

/// The client on whose behalf text work is done. The text threads are shared fairly by tenant.
struct TextCaller {
  std::string tenant{};  // empty: clients are not told apart
  TextTime time{};       // null: the time is not counted
};

/// A position in a chat up to which the client asks for its prompt to be cached.
struct ChatBreakpoint {
  enum class In : std::uint8_t { kTool, kContent, kCall } in = In::kContent;
  std::uint32_t index = 0;  // index of the tool, or of the message
  // kContent: byte offset in the message's text, which must be a string; kCall: index of the call
  std::size_t at = 0;
  std::chrono::seconds ttl{300};  // how long the client needs the entry
};

/// A tool whose input is free text. The model sees a function with one string parameter
/// (grammar::kInputName).
struct TextTool {
  std::string name;
  grammar::TextRule input{};
};

struct ChatPrompt {
  Json messages;                       // array of objects, as the client sent them
  Json tools{};                        // array, or null
  std::vector<TextTool> text_tools{};  // those of `tools` that take text
  Json template_extra{};  // object with further variables for the template (chat_template_kwargs), or null
  bool add_generation_prompt = true;
  /// Text appended to the rendered prompt: the reply continues it, and its deltas do not repeat it.
  std::string reply_opening{};
  /// The opening starts the assistant's answer: it follows the reasoning, even if the template has opened a
  /// reasoning block.
  bool opening_is_content = false;
  std::string opening_reasoning{};
  std::vector<ChatBreakpoint> breakpoints{};
  /// Block boundaries inside strings after the assistant's last message. Content that is an array of parts
  /// needs no entry.
  std::vector<ChatBreakpoint> blocks{};
};

/// A sequence of texts and token ids. BOS is added only before a text that comes first.
struct PromptParts {
  std::vector<std::variant<std::string, TokenList>> parts;
};

/// The text before and after a gap that the reply fills. Only models with infill tokens support it.
struct InfillPrompt {
  std::string prefix;
  std::string suffix;
  std::string opening{};  // the beginning of the text that fills the gap
  struct File {
    std::string name;
    std::string text;
  };
  std::vector<File> files{};
  std::string field{};  // request member to name in the error if the model has no infill tokens
};

using Prompt = std::variant<std::string, TokenList, ChatPrompt, PromptParts, InfillPrompt>;

/// A bias that is applied to every token of a text.
struct TextBias {
  std::string text;
  float bias = 0;
};

/// How a prompt's hidden states become one vector.
enum class Pooling : std::uint8_t {
  kLast,
  kMean,
};

struct EmbeddingRequest {
  Pooling pooling = Pooling::kLast;
  std::uint32_t dimensions = 0;  // leading values to return; 0: all
};

/// Which tokens a reply may have, besides what `sampling` makes of them, and where it ends.
struct ReplyRules {
  grammar::Constraint constraint{};    // grammar of the reply; reasoning before it is not constrained
  std::vector<TextBias> text_bias{};   // added to sampling.logit_bias
  std::uint32_t min_tokens = 0;        // tokens to generate before an end token may be sampled
  bool unlimited = false;              // without max_tokens: up to the context, not the server's default
  std::vector<std::string> stop{};     // texts that end the reply
  bool keep_stop = false;              // the reply includes the text that ends it
  std::vector<TokenId> stop_tokens{};  // further tokens that end the reply
  bool ignore_eos = false;
  bool ban_eos = false;  // mask end tokens, unless a constraint leaves no other token
  /// Maximum tokens of reasoning, after which it is closed; -1: unlimited. None: the server's setting, for
  /// chats.
  std::optional<std::int32_t> reasoning_budget{};
  std::vector<std::string> dry_breakers{};  // texts that end a repetition, for sampling.dry_*
  bool logprobs_of_draw = false;  // report log probabilities after the samplers, not those of the raw logits
};

/// How a request uses the prefix cache, and what is kept of its states. No option changes the reply, except
/// `kv_budget`.
struct CacheOptions {
  std::string name_space{};      // no snapshot is ever restored in another one
  bool enabled = true;           // false: do not read or write the cache
  std::uint32_t min_tokens = 0;  // do not restore fewer tokens than this
  std::string conversation{};    // hint that requests belong together (prompt_cache_key); may be empty
  /// KV entries to keep of the prompt (base/kv_budget.h); 0: all. None: the model's setting.
  std::optional<std::uint32_t> kv_budget{};
  std::chrono::seconds pin{0};  // how long the prompt's state is the last to be evicted; 0: no pin
  // the pin ends when the last reference to the ticket is dropped; null: when `pin` has passed
  SharedPinTicket pin_ticket{};
  std::uint32_t pin_tokens = UINT32_MAX;  // maximum prompt tokens of the pinned state
  bool pin_moves = false;  // if the ticket already pins another state, move its pin to this one
  /// How long the prompt's states on disk are the last to be evicted there.
  std::chrono::seconds disk_retention{0};
};

/// On whose behalf a request is made. Decides its turn and its share of the memory, never its reply.
struct RequestOrigin {
  std::string id{};  // for logs; shared by all prompts of one client request
  // the reply's id, which the client sees and from which ids of tool calls derive; shared by all prompts of a
  // request
  std::string reply_id{};
  std::string tenant{};     // the client, for fair shares; empty: clients are not told apart
  double tenant_share = 0;  // fraction of the state memory for all sequences of the tenant; 0: unlimited
  Priority priority = Priority::kNormal;
  TextTime text_time{};          // CPU time of preparing prompt, constraint and masks; null: not counted
  traces::RequestTrace trace{};  // the trace so far; empty: the engine begins one
};

/// Reports that the events of a request carry besides the reply.
struct ReportOptions {
  bool timeline = false;   // fill Usage::timeline
  bool explained = false;  // fill Usage::miss_text
  bool settled = false;    // fill Started::settled
  bool progress = false;   // send Progress events
};

struct GenerateRequest {
  std::string model{};    // name, or "MODEL:ADAPTER"; empty: the first model
  std::string adapter{};  // empty: none, or the one that `model` names
  Prompt prompt;
  // keep only the last tokens of the prompt, at most this many; 0: as many as the context holds
  std::optional<std::uint32_t> prompt_tail_tokens{};
  std::uint32_t n = 1;                        // replies
  std::optional<std::uint32_t> max_tokens{};  // none: the server's default, or the rest of the context
  SamplingOverrides sampling{};
  ReplyRules rules{};
  CacheOptions cache{};
  RequestOrigin origin{};
  ReportOptions report{};
  /// If set, the reply is the prompt's pooled hidden state instead of text; max_tokens, sampling and rules
  /// are ignored.
  std::optional<EmbeddingRequest> embedding{};
};

// -- replies

struct ReplyToken {
  TokenId id = 0;
  std::string bytes;  // decoded bytes; may end inside a UTF-8 character
  std::optional<double> logprob{};
  struct Alternative {
    TokenId id;
    std::string bytes;
    double logprob;
  };
  std::vector<Alternative> top{};
};

enum class FinishReason : std::uint8_t { kStop, kLength };
std::string_view name_of(FinishReason reason);

/// The cause that closed the reasoning part of a reply.
enum class ReasoningEnd : std::uint8_t {
  kModel,
  kBudget,
  kClient,  // Service::end_reasoning
};
std::string_view name_of(ReasoningEnd end);

struct Timing {
  double queued_ms = 0;       // from arrival to admission
  double prefill_ms = 0;      // lookup, restore and prefill
  double first_token_ms = 0;  // from arrival to the first token
  double decode_ms = 0;       // from the first token to the last
};

/// The prompt's text before and after a position.
struct TextAround {
  std::string before;
  std::string after;
};

struct Usage {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t completion_tokens = 0;  // sum over all choices
  CacheReport cache{};
  std::optional<KvKept> kv{};  // present if a prompt was compacted; summed over the prompts
  Timing timing{};
  std::vector<traces::Mark> timeline{};  // marks of the request so far, if requested
  // the text around CacheReport::known_tokens after a miss, if requested
  std::optional<TextAround> miss_text{};
  // kModel unless some choice's reasoning was closed otherwise
  ReasoningEnd reasoning_ended_by = ReasoningEnd::kModel;
  std::string pin_problem{};  // why a requested pin was not made; empty otherwise
  // tool calls of the history that the prompt has exactly as they were sampled
  std::uint32_t recognized_calls = 0;
  // request members that are not known (protocol/api/field_rules.h)
  std::vector<std::string> unknown_fields{};
};

struct Admitted {
  std::string model;
  std::uint32_t prompt_tokens;
  std::uint32_t context = 0;  // maximum tokens of prompt and reply together
};
/// Prefill progress, if requested: sent after the restore, after computed slices (at most ten times a
/// second), and at the end of the prompt.
struct Progress {
  std::uint32_t total = 0;
  std::uint32_t restored = 0;
  std::uint32_t processed = 0;  // including restored tokens
  double ms = 0;                // since admission
  std::uint32_t prompt_index = 0;
};
/// The effective values of a request's options.
struct Settled {
  SamplingParams sampling;
  std::uint32_t max_tokens = 0;
  std::string prompt_text;  // detokenized prompt, with special tokens written out
};
struct Started {
  CacheReport cache;
  // last bytes of the prompt's text, which show whether the template opened a reasoning block
  std::string prompt_tail;
  SharedTokens prompt{};                     // rendered and tokenized prompt
  std::uint32_t prompt_index = 0;            // index of the prompt in a request with several prompts
  std::shared_ptr<const Settled> settled{};  // null unless requested
};
struct Delta {
  std::uint32_t choice = 0;
  std::string text;                // whole UTF-8 characters; empty while a character is incomplete
  std::vector<ReplyToken> tokens;  // tokens since the last delta
};
struct Finished {
  std::uint32_t choice = 0;
  FinishReason reason = FinishReason::kStop;
  std::string stop{};  // the stop string that ended the reply; empty: another cause
};
/// Replaces deltas and Finished if an embedding was requested.
struct Embedded {
  std::vector<float> values;  // as computed by the model, not normalized
  std::uint32_t prompt_index = 0;
};
struct Done {
  Usage usage;
};
struct Failed {
  Error error{};
};

using Event = std::variant<Admitted, Started, Delta, Finished, Done, Failed, Progress, Embedded>;

/// Maximum number of events that wait for the reader.
inline constexpr std::uint32_t kEventWindow = 32;

// -- status of the engine

struct ModelCard {
  std::string id;            // "MODEL:ADAPTER" for an adapter
  std::string parent{};      // for an adapter, the model it belongs to; empty for a model
  std::int64_t created = 0;  // seconds since 1970
  std::string architecture;
  std::uint32_t context = 0;  // tokens
  std::uint32_t vocab = 0;
  bool takes_text = false;                   // the model has a tokenizer
  std::shared_ptr<const ChatFormat> chat{};  // null: the model cannot chat
  enum class State : std::uint8_t { kLoading, kReady, kFailed } state = State::kLoading;
  std::uint32_t loaded_permille = 0;  // progress of loading
  std::string problem{};              // why loading failed, without folder names; empty otherwise

  std::vector<std::string> aliases{};  // further names and patterns that requests may use
  std::vector<std::string> tags{};
  std::string file{};         // name of the model's file or folder, without its path
  SamplingParams sampling{};  // for requests that set none
  bool fixed_seed = false;    // requests without a seed use sampling.seed; false: a random seed each
  std::optional<std::uint32_t> max_tokens{};  // default for requests; none: the rest of the context
  bool chat_is_assumed = false;               // the model has no template; `chat` is the default format
  std::uint32_t sequences = 0;                // maximum number of sequences computed at once

  /// Returns whether `name` equals the id or an alias exactly.
  bool is_called(std::string_view name) const;
  /// Returns is_called(name), or whether `name` matches an alias pattern such as "gpt-*", whose star matches
  /// any characters but a colon.
  bool answers_to(std::string_view name) const;
};
std::string_view name_of(ModelCard::State state);

/// Returns the entry of the model called `name` (empty: the first entry), or `end`. An exact name takes
/// precedence over a pattern. `card_of`: returns the card of an entry.
template <class It, class CardOf>
It find_named(It begin, It end, std::string_view name, const CardOf& card_of) {
  for (It it = begin; it != end; ++it) {
    if (name.empty() || card_of(*it).is_called(name)) return it;
  }
  return std::find_if(begin, end, [&](const auto& entry) { return card_of(entry).answers_to(name); });
}

/// Returns the card found by find_named(), or null.
const ModelCard* card_named(const std::vector<ModelCard>& cards, std::string_view name);

/// If one model is served and no card answers to `name`, returns the empty name, which selects it; else
/// `name`.
std::string nearest_model(const std::vector<ModelCard>& cards, const std::string& name);

/// Returns "there is no model 'x'; served: a, b": the error for an unknown model. It lists a few names; all
/// tenants may see all models.
std::string no_such_model(std::string_view name, const std::vector<std::string>& served);

/// A request that is queued or running. Has no prompt or reply text, so that any tenant may see it.
struct RunningRequest {
  std::uint64_t number = 0;  // unique id, never reused
  std::string model{};
  std::uint32_t prompt_tokens = 0;  // 0: not known yet
  std::uint32_t reused_tokens = 0;
  std::uint32_t reply_tokens = 0;
  std::uint32_t max_reply_tokens = 0;
};

struct Health {
  bool ready = false;
  std::string detail{};  // why the engine is not ready
};

/// A metric with its Prometheus name.
struct Figure {
  enum class Kind : std::uint8_t { kCounter, kGauge } kind = Kind::kGauge;
  std::string name;  // such as reprise_restored_tokens_total
  std::string help;
  std::vector<std::pair<std::string, std::string>> labels{};
  double value = 0;
};

struct Detokenized {
  std::string text;
};
struct Tokenized {
  TokenList tokens;
  std::vector<std::string> pieces;  // bytes of each token, if requested
};
struct TokenizeRequest {
  std::string model{};
  std::string text;
  bool add_special = false;
  bool parse_special = true;
  bool with_pieces = false;
  TextCaller caller{};
};
struct DetokenizeRequest {
  std::string model{};
  TokenList tokens;
  TextCaller caller{};
};
struct RenderRequest {
  std::string model{};
  ChatPrompt chat;
  bool want_tokens = false;
  TextCaller caller{};
};
struct Rendered {
  std::string prompt;
  TokenList tokens{};  // the tokens that a request with this chat would have, if requested
};

class NamedSnapshots;

class Service {
 public:
  virtual ~Service() = default;

  virtual runtime::StreamReader<Event> generate(GenerateRequest request) = 0;
  virtual runtime::Ask<Answer<Tokenized>> tokenize(TokenizeRequest request) = 0;
  virtual runtime::Ask<Answer<Detokenized>> detokenize(DetokenizeRequest request) = 0;
  virtual runtime::Ask<Answer<Rendered>> render(RenderRequest request) = 0;

  /// Returns the card of each model, followed by those of its adapters.
  virtual std::vector<ModelCard> models() const = 0;
  /// Null: adapters cannot be loaded or dropped at run time.
  virtual AdapterAdmin* adapter_admin() { return nullptr; }
  virtual Health health() const = 0;
  virtual std::vector<RunningRequest> running() const { return {}; }
  /// Closes the reasoning of the running reply `reply_id` (RequestOrigin::reply_id) as if its budget were
  /// used up; the model continues with the answer. Returns false if this tenant has no such reply.
  virtual bool end_reasoning(const std::string& /*reply_id*/, const std::string& /*tenant*/) { return false; }
  virtual std::vector<Figure> figures() const = 0;
  /// The named snapshots, which live as long as the service; null: it has none, and the APIs keep their own.
  virtual std::shared_ptr<NamedSnapshots> named_snapshots() { return nullptr; }
};

}  // namespace reprise::protocol
