#pragma once
// What an API is to the server: a Dialect, which says how its errors look, and Endpoints, each of which
// answers at a path. HTTP knows these alone; an API implements them in a folder of its own and names its
// paths in a list of ApiRoute (protocol/openai/openai_api.h is the first, protocol/apis.h has them all).
//
//   bytes of a body --Endpoint::parse()--> GenerationCall --stream() or whole()--> Reply (protocol/api/reply.h)
//                                     \--> Question       --answer()-------------> a JSON body
//
// What goes wrong before the first byte of a reply, in HTTP or in the engine, is told by error_answer(); what
// goes wrong in an open stream by StreamedReply::failed().
//
// Threading: dialects and endpoints are shared by all connections and parsing threads: what they keep they
// guard. Calls and questions belong to one actor at a time.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/outcome.h"
#include "protocol/api/api_error.h"
#include "protocol/api/api_request.h"
#include "protocol/api/body_limits.h"
#include "protocol/api/reply.h"
#include "protocol/service.h"
#include "runtime/task.h"

namespace reprise::protocol {

class Dialect {
 public:
  virtual ~Dialect() = default;

  struct ErrorAnswer {
    int status;  // the error's own, unless the API has another for it
    std::string body;
  };
  virtual ErrorAnswer error_answer(const ApiError& error) const = 0;
};

/// A request for text, and how its client wants it.
class GenerationCall {
 public:
  explicit GenerationCall(ApiRequest asked) : request(std::move(asked)) {}
  virtual ~GenerationCall() = default;
  GenerationCall(const GenerationCall&) = delete;
  GenerationCall& operator=(const GenerationCall&) = delete;

  /// One of the two, once; the first where request.stream is set. The request may have been moved from.
  virtual std::unique_ptr<StreamedReply> stream(ReplyContext context) = 0;
  virtual std::unique_ptr<Reply> whole(ReplyContext context) = 0;

  ApiRequest request;
};

/// Anything else that is asked: answered in one piece.
class Question {
 public:
  Question() = default;
  virtual ~Question() = default;
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

  using Answered = Outcome<std::string, ApiError>;  // a JSON body
  /// Once. Belongs to an actor's turn, as asks do.
  virtual runtime::Task<Answered> answer(Service& service) = 0;

  std::vector<std::string> unknown_fields{};  // of the body, added to the answer (field_rules.h)
  /// Whether it is work on texts: tokenising, rendering. That counts towards its tenant's limits.
  virtual bool is_text_work() const { return false; }

  TextCaller caller{};  // for text work; set before answer()
};

using ParsedCall = std::variant<ApiError, std::unique_ptr<GenerationCall>, std::unique_ptr<Question>>;

struct ApiInput {
  std::string_view body;
  std::string_view path_end{};    // what stands in the place of a path's {…}, with %xx decoded
  std::string_view query{};       // of the target (protocol/api/query.h)
  std::string_view cache_salt{};  // of the query or the header, for methods without a body
  std::string_view tenant{};      // empty: the server has no keys
  bool deletes = false;           // the method was DELETE, at a path of kGetDelete
};

class Endpoint {
 public:
  virtual ~Endpoint() = default;

  virtual const Dialect& dialect() const = 0;
  /// Any thread. May throw BadRequest.
  virtual ParsedCall parse(const ApiInput& input, const BodyLimits& limits) const = 0;
};

enum class HttpMethod : std::uint8_t { kGet, kPost, kGetDelete };  // where GET is taken, HEAD is as well

/// Where an endpoint is found, and how it is looked after. A path may have one for each method.
struct ApiRoute {
  HttpMethod method = HttpMethod::kPost;
  std::string path;  // "/v1/models/{id}": {…} stands for one or more characters, at the end alone
  std::shared_ptr<const Endpoint> endpoint;
  bool generates = false;      // counts among the requests that are answered at once, and is logged
  bool is_public = false;      // needs no key
  bool for_operators = false;  // where there are keys, needs an operator's
};

/// All that a server answers beside its own pages.
struct ApiTable {
  std::vector<ApiRoute> routes;
  std::shared_ptr<const Dialect> elsewhere;  // for errors at paths that are nobody's
};

}  // namespace reprise::protocol
