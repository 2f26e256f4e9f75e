#pragma once
// Service: what the outside (HTTP, a terminal, a host application) can ask of the engine. The engine's actors
// implement it; nothing here knows how.
//
// generate() gives a stream of events at once; whatever goes wrong comes in it. The order of events:
//
//   Admitted  Started  Delta...  Finished (one for each choice)  Done        or, at any place:  Failed
//   Admitted  Started  Embedded                                  Done        where an embedding is wanted
//
// Admitted comes when the request has its memory, so a client that sees nothing is still in the queue.
// Letting the reader go cancels the request: its sequence is freed within a step, also while it is queued or
// in prefill. The stream has credit: a reader that does not take its events pauses its own request alone.
//
// Threading: generate(), models(), health() and figures() from any thread, without waiting for the engine.
// The asks belong to an actor's turn, as all asks do.

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
#include "protocol/grammar/constraint.h"
#include "protocol/pin.h"
#include "protocol/priority.h"
#include "runtime/ask.h"
#include "runtime/stream.h"
#include "traces/request_trace.h"

namespace reprise::protocol {

class AdapterDesk;  // protocol/server_desk.h
class ChatFormat;   // protocol/chat/chat_format.h

// -- what goes wrong

enum class ServiceErrorCode : std::uint8_t {
  kInvalid,  // the request makes no sense; `field` names what
  kUnknownModel,
  kTooLong,      // prompt and reply do not fit the model's context or the memory; the message has the figures
  kUnsupported,  // would change the answer and cannot be done; `field` names it
  kOverloaded,   // the queue is full, or the wait was too long; try again later
  kUnavailable,  // the model is loading, or its device has failed and is being recovered
  kInternal,     // the engine's own fault
  kCancelled,    // by the client or by shutdown
};

std::string_view name_of(ServiceErrorCode code);

struct ServiceError {
  ServiceErrorCode code = ServiceErrorCode::kInternal;
  std::string message;
  std::string field{};  // of the request, as the client spells it; may be empty
  std::optional<std::chrono::seconds> retry_after{};
  /// kTooLong: the tokens of the prompt, and those that fit.
  struct Lengths {
    std::uint64_t prompt = 0;
    std::uint64_t context = 0;
  };
  std::optional<Lengths> lengths{};
};

template <class T>
using Answer = std::variant<T, ServiceError>;

// -- what is asked for

/// What the text work of one request has cost: microseconds of the threads that did it. Added to by them, from any thread.
using TextTime = std::shared_ptr<std::atomic<std::uint64_t>>;

/// Who asks for work on texts. Threads for it are shared fairly by tenant.
struct TextCaller {
  std::string tenant{};  // empty: clients are not told apart
  TextTime time{};       // null: nobody counts it
};

/// A place of a chat up to which the client wishes its prompt to be kept.
struct ChatBreakpoint {
  enum class In : std::uint8_t { kTool, kContent, kCall } in = In::kContent;
  std::uint32_t index = 0;        // of the tool, or of the message
  std::size_t at = 0;             // kContent: bytes of its text, which must be a string; kCall: which call
  std::chrono::seconds ttl{300};  // it need not be kept for longer
};

/// A tool that takes a text, and is shown to the model as a function with that one parameter (grammar::kInputName).
struct TextTool {
  std::string name;
  grammar::TextRule input{};
};

struct ChatPrompt {
  Json messages;                       // array of objects, as the client sent them
  Json tools{};                        // array, or null
  std::vector<TextTool> text_tools{};  // of `tools`
  Json template_extra{};  // object with further names for the template (chat_template_kwargs), or null
  bool add_generation_prompt = true;
  /// Put behind the rendered prompt: the reply goes on from it, and its deltas do not repeat it.
  std::string reply_opening{};
  /// The opening is the beginning of what the assistant says: behind its reasoning, also where the template has opened
  /// that.
  bool opening_is_content = false;
  std::string opening_reasoning{};
  std::vector<ChatBreakpoint> breakpoints{};
  /// Where two blocks meet in what stands behind the assistant's last message and is one text already; parts of content show
  /// it themselves.
  std::vector<ChatBreakpoint> blocks{};
};

/// Texts and token ids in a row: a BOS comes in front of a text that stands first, and nowhere else.
struct PromptParts {
  std::vector<std::variant<std::string, TokenList>> parts;
};

/// What stands before and behind a gap that the reply is to fill. For models that were made for it: others have no marks
/// for the places.
struct InfillPrompt {
  std::string prefix;
  std::string suffix;
  std::string opening{};  // of what fills the gap
  struct File {
    std::string name;
    std::string text;
  };
  std::vector<File> files{};  // for the model to know
  std::string field{};        // of the request, that a model without marks is told of
};

using Prompt = std::variant<std::string, TokenList, ChatPrompt, PromptParts, InfillPrompt>;

/// A bias of every token that a text consists of.
struct TextBias {
  std::string text;
  float bias = 0;
};

/// How the hidden states of a prompt become one.
enum class Pooling : std::uint8_t {
  kLast,  // the last token's
  kMean,  // the mean of all
};

struct EmbeddingWish {
  Pooling pooling = Pooling::kLast;
  std::uint32_t dimensions = 0;  // that will be used of it; 0: all
};

struct GenerateRequest {
  std::string id{};  // for logs; prompts of one client's request have it in common
  std::string
      reply_id{};  // of the reply, to its client; replies to its prompts have it in common, and ids of calls are made of it
  std::string model{};    // by name, also "MODEL:ADAPTER"; empty: the only one, or the first
  std::string adapter{};  // of the model, by name; empty: none, or what `model` says
  Prompt prompt;
  std::uint32_t n = 1;
  std::optional<std::uint32_t> max_tokens{};  // none: what the server gives, or what the context leaves
  bool unlimited = false;                     // none: what the context leaves, whatever the server gives
  std::vector<std::string> stop{};
  SamplingWishes sampling{};
  grammar::Constraint constraint{};    // what the reply must be; reasoning may stand before it
  std::vector<TextBias> text_bias{};   // beside sampling.logit_bias
  std::vector<TokenId> stop_tokens{};  // further ones that end the reply
  std::uint32_t min_tokens = 0;        // before anything that ends the reply by itself may be chosen
  bool keep_stop = false;              // the stop string that ends a reply is part of it
  std::optional<std::uint32_t>
      prompt_tail_tokens{};  // no more of the prompt than its last ones; 0: what the context has
  std::vector<std::string> dry_breakers{};  // texts that no repetition goes across, for sampling.dry_…
  bool logprobs_of_draw = false;            // those that are told must be of what the token was drawn from
  bool ignore_eos = false;
  /// Tokens after which the reply's reasoning is closed; -1: unlimited. None: as the server is configured, for chats.
  std::optional<std::int32_t> reasoning_budget{};
  bool ban_eos = false;  // what ends a reply is never chosen, but where a constraint leaves nothing else
  /// Who may share snapshots: nothing is ever restored across different values.
  std::string name_space{};
  bool cache_prompt = true;            // false: neither read nor write the cache
  std::uint32_t min_cache_tokens = 0;  // do not bother to restore fewer
  /// Tokens of keys and values that the reply goes on with (base/kv_budget.h); 0: all. None: as the model is configured.
  std::optional<std::uint32_t> kv_budget{};
  std::chrono::seconds pin{0};   // for so long the state of the prompt is the last to be evicted
  SharedPinTicket pin_ticket{};  // the pin ends when nobody holds it any more; null: when its time is over
  std::uint32_t pin_tokens = UINT32_MAX;  // of the prompt, the most that the pinned state has
  bool pin_moves = false;                 // a ticket that pins another state already pins this one instead
  /// For so long the prompt's states on disk are the last to be evicted there.
  std::chrono::seconds disk_retention{0};
  Priority priority = Priority::kNormal;
  std::string tenant{};     // who asks, where clients are told apart: they get fair shares
  double tenant_share = 0;  // of the state memory, for all sequences of the tenant; 0: no limit
  TextTime text_time{};  // of preparing its prompt and its constraint, and of masks; null: nobody counts it
  std::string conversation{};    // a hint that requests belong together (prompt_cache_key); may be empty
  traces::RequestTrace trace{};  // its way so far; nobody's: the engine begins one
  bool want_timeline = false;    // in Usage
  bool want_explained = false;   // Usage::miss_text
  bool want_settled = false;     // Started::settled
  bool want_progress = false;    // Progress
  /// Set: no text is wanted, but the prompt's last hidden state. max_tokens and sampling say nothing then.
  std::optional<EmbeddingWish> embedding{};
};

// -- what comes back

struct ReplyToken {
  TokenId id = 0;
  std::string bytes;  // what it decodes to, perhaps not whole characters
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

/// What closed a reply's reasoning.
enum class ReasoningEnd : std::uint8_t {
  kModel,
  kBudget,
  kClient,  // Service::end_reasoning
};
std::string_view name_of(ReasoningEnd end);

struct Timing {
  double queued_ms = 0;       // until admission
  double prefill_ms = 0;      // lookup, restore and prefill
  double first_token_ms = 0;  // from arrival
  double decode_ms = 0;       // from the first token to the last
};

/// A prompt's text on both sides of a position.
struct TextAround {
  std::string before;
  std::string after;
};

struct Usage {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t completion_tokens = 0;  // of all choices
  CacheReport cache{};
  std::optional<KvKept> kv{};  // the prompt was compacted; of several prompts together
  Timing timing{};
  std::vector<traces::Mark> timeline{};  // of the request so far, where it was asked for
  std::optional<TextAround>
      miss_text{};  // of a miss: around CacheReport::known_tokens, where it was asked for
  ReasoningEnd reasoning_ended_by = ReasoningEnd::kModel;  // of any choice, where it was not the model
  std::string pin_problem{};                               // why nothing is pinned, where that was asked for
  std::uint32_t recognized_calls =
      0;  // tool calls of the history that are in the prompt as they were sampled
  std::vector<std::string>
      unknown_fields{};  // of the request, that mean nothing here (protocol/api/field_rules.h)
};

struct Admitted {
  std::string model;
  std::uint32_t prompt_tokens;
  std::uint32_t context = 0;  // tokens that prompt and reply may have together
};
/// How far the prompt has come, where it was asked for: once when its beginning is restored, after slices of it that
/// are computed, at most ten times a second, and once at its end.
struct Progress {
  std::uint32_t total = 0;
  std::uint32_t restored = 0;
  std::uint32_t processed = 0;  // restored ones with them
  double ms = 0;                // since it was admitted
  std::uint32_t prompt_index = 0;
};
/// What a request came to.
struct Settled {
  SamplingParams sampling;
  std::uint32_t max_tokens = 0;
  std::string prompt_text;  // of its tokens, special ones as they are written
};
struct Started {
  CacheReport cache;
  std::string
      prompt_tail;        // the last bytes of the prompt's text: a template may have opened a thinking block
  SharedTokens prompt{};  // rendered and tokenised
  std::uint32_t prompt_index = 0;            // where the replies to several prompts come as one
  std::shared_ptr<const Settled> settled{};  // where it was asked for
};
struct Delta {
  std::uint32_t choice = 0;
  std::string text;                // whole UTF-8 characters; may be empty while one is unfinished
  std::vector<ReplyToken> tokens;  // those that came since the last delta
};
struct Finished {
  std::uint32_t choice = 0;
  FinishReason reason = FinishReason::kStop;
  std::string stop{};  // the stop string that ended it, if one did
};
/// In the place of deltas and Finished, where an embedding was asked for.
struct Embedded {
  std::vector<float> values;  // as the model computed them: not normalised
  std::uint32_t prompt_index = 0;
};
struct Done {
  Usage usage;
};
struct Failed {
  ServiceError error;
};

using Event = std::variant<Admitted, Started, Delta, Finished, Done, Failed, Progress, Embedded>;

/// Events that may wait for a reader.
inline constexpr std::uint32_t kEventWindow = 32;

// -- looking at the engine

struct ModelCard {
  std::string id;            // of a model with an adapter "MODEL:ADAPTER"
  std::string parent{};      // the model that it is an adapter to; empty: none, it is a model
  std::int64_t created = 0;  // seconds since 1970
  std::string architecture;
  std::uint32_t context = 0;  // tokens
  std::uint32_t vocab = 0;
  bool takes_text = false;                   // has a tokenizer
  std::shared_ptr<const ChatFormat> chat{};  // null: no chat
  enum class State : std::uint8_t { kLoading, kReady, kFailed } state = State::kLoading;
  std::uint32_t loaded_permille = 0;  // while it is loading
  std::string problem{};              // why it failed, without the folders of its files; empty otherwise

  std::vector<std::string> aliases{};         // further names that requests may use
  std::vector<std::string> tags{};            // words for people
  std::string file{};                         // the name of its file or folder, without the way there
  SamplingParams sampling{};                  // of a request that says nothing
  bool fixed_seed = false;                    // of such a request: sampling.seed; else another each time
  std::optional<std::uint32_t> max_tokens{};  // of a request that says nothing; none: what the context leaves
  bool chat_is_assumed = false;  // it came without a template, and `chat` is what most models understand
  std::uint32_t sequences = 0;   // that may be computed at once

  /// By its id or an alias, letter by letter.
  bool is_called(std::string_view name) const;
  /// The same, and by an alias such as "gpt-*", whose star stands for any letters but a colon.
  bool answers_to(std::string_view name) const;
};
std::string_view name_of(ModelCard::State state);

/// The card of a model of this name (empty: the first); null: there is none. A name comes before another model's pattern.
const ModelCard* card_named(const std::vector<ModelCard>& cards, std::string_view name);

/// Where one model alone is served and no card answers to the name: empty, which means that one. Else the name.
std::string nearest_model(const std::vector<ModelCard>& cards, const std::string& name);

/// "there is no model 'x'; served: a, b": what a client is told that asks for another, with a few of the names. All
/// tenants are served all models.
std::string no_such_model(std::string_view name, const std::vector<std::string>& served);

/// One that is being answered, or waits for it. Lengths alone: what it says is nobody else's.
struct RunningRequest {
  std::uint64_t number = 0;  // never used twice
  std::string model{};
  std::uint32_t prompt_tokens = 0;  // 0: not known yet
  std::uint32_t reused_tokens = 0;  // of them, restored
  std::uint32_t reply_tokens = 0;
  std::uint32_t most_reply_tokens = 0;
};

struct Health {
  bool ready = false;
  std::string detail{};  // why not
};

/// One number about the engine, as Prometheus names such things.
struct Figure {
  enum class Kind : std::uint8_t { kCounter, kGauge } kind = Kind::kGauge;
  std::string name;  // reprise_restored_tokens_total
  std::string help;
  std::vector<std::pair<std::string, std::string>> labels{};
  double value = 0;
};

struct Detokenized {
  std::string text;
};
struct Tokenized {
  TokenList tokens;
  std::vector<std::string> pieces;  // bytes of each, where asked for
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
  TokenList tokens{};  // as a request with this chat would have them, where asked for
};

class NamedSnapshots;

class Service {
 public:
  virtual ~Service() = default;

  virtual runtime::StreamReader<Event> generate(GenerateRequest request) = 0;
  virtual runtime::Ask<Answer<Tokenized>> tokenize(TokenizeRequest request) = 0;
  virtual runtime::Ask<Answer<Detokenized>> detokenize(DetokenizeRequest request) = 0;
  virtual runtime::Ask<Answer<Rendered>> render(RenderRequest request) = 0;

  /// Each model, with its adapters behind it.
  virtual std::vector<ModelCard> models() const = 0;
  /// Null: adapters neither come nor go here.
  virtual AdapterDesk* adapter_desk() { return nullptr; }
  virtual Health health() const = 0;
  virtual std::vector<RunningRequest> running() const { return {}; }
  /// Closes the reasoning of the reply with this id (GenerateRequest::reply_id) as if its budget were used up; its other
  /// tokens are the model's. Returns false if that tenant has no such reply under way. Any thread.
  virtual bool end_reasoning(const std::string& /*reply_id*/, const std::string& /*tenant*/) { return false; }
  virtual std::vector<Figure> figures() const = 0;
  /// The names of snapshots that last as long as the service keeps them; null: it keeps none, and they last as long as
  /// the APIs.
  virtual std::shared_ptr<NamedSnapshots> named_snapshots() { return nullptr; }
};

}  // namespace reprise::protocol
