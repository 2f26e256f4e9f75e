#include "protocol/grammar/string_formats.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace reprise::protocol::grammar {
namespace {

// Days that there are, leap years included.
#define REPRISE_DATE                                                                                       \
  "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"    \
  "02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])" \
  "00)-02-29)"
#define REPRISE_TIME \
  "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define REPRISE_LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define REPRISE_BYTE "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define REPRISE_IPV4 REPRISE_BYTE "\\." REPRISE_BYTE "\\." REPRISE_BYTE "\\." REPRISE_BYTE
#define REPRISE_H16 "[0-9A-Fa-f]{1,4}"
#define REPRISE_IPV6                                                                                    \
  "(?:(?:" REPRISE_H16 ":){7}" REPRISE_H16 "|(?:" REPRISE_H16 ":){1,7}:|(?:" REPRISE_H16                \
  ":){1,6}:" REPRISE_H16 "|(?:" REPRISE_H16 ":){1,5}(?::" REPRISE_H16 "){1,2}|(?:" REPRISE_H16          \
  ":){1,4}(?::" REPRISE_H16 "){1,3}|(?:" REPRISE_H16 ":){1,3}(?::" REPRISE_H16 "){1,4}|(?:" REPRISE_H16 \
  ":){1,2}(?::" REPRISE_H16 "){1,5}|" REPRISE_H16 ":(?::" REPRISE_H16 "){1,6}|:(?:(?::" REPRISE_H16     \
  "){1,7}|:))"
#define REPRISE_URI_CHAR "(?:[A-Za-z0-9\\-._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})"
#define REPRISE_AUTHORITY                                                       \
  "(?:(?:[A-Za-z0-9\\-._~!$&'()*+,;=:]|%[0-9A-Fa-f]{2})*@)?(?:\\[" REPRISE_IPV6 \
  "\\]|(?:[A-Za-z0-9\\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2})+)(?::[0-9]{1,5})?"
#define REPRISE_PATH "(?:/" REPRISE_URI_CHAR "*)*"
#define REPRISE_TAIL "(?:\\?(?:" REPRISE_URI_CHAR "|[/?])*)?(?:#(?:" REPRISE_URI_CHAR "|[/?])*)?"

constexpr auto kPatterns = std::to_array<std::pair<const char*, const char*>>({
    {"date", REPRISE_DATE},
    {"time", REPRISE_TIME},
    {"date-time", REPRISE_DATE "[Tt]" REPRISE_TIME},
    {"duration",
     "P(?:[0-9]+W|(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)(?:T(?:[0-9]+H(?:[0-9]+M(?:["
     "0-9]+S)"
     "?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))?|T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))"},
    {"email", "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@" REPRISE_LABEL
              "(?:\\." REPRISE_LABEL ")+"},
    {"hostname", REPRISE_LABEL "(?:\\." REPRISE_LABEL ")*"},
    {"ipv4", REPRISE_IPV4},
    {"ipv6", REPRISE_IPV6},
    {"uuid", "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"},
    {"uri", "(?:[Ff][Ii][Ll][Ee]:///(?:" REPRISE_URI_CHAR
            "|/)*|[A-Za-z][A-Za-z0-9+\\-.]*:(?://" REPRISE_AUTHORITY REPRISE_PATH "|/(?:" REPRISE_URI_CHAR
            "+" REPRISE_PATH ")?|" REPRISE_URI_CHAR "+" REPRISE_PATH "))" REPRISE_TAIL},
    {"uri-reference",
     "(?:[A-Za-z][A-Za-z0-9+\\-.]*:)?(?://" REPRISE_AUTHORITY REPRISE_PATH "|/(?:" REPRISE_URI_CHAR
     "+" REPRISE_PATH ")?|(?:[A-Za-z0-9\\-._~!$&'()*+,;=@]|%[0-9A-Fa-f]{2})+" REPRISE_PATH ")?" REPRISE_TAIL},
    {"json-pointer", "(?:/(?:[^~/]|~[01])*)*"},
    {"relative-json-pointer", "(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^~/]|~[01])*)*)"},
});

// Of the specification, and not known here.
constexpr auto kOther = std::to_array<const char*>(
    {"idn-email", "idn-hostname", "iri", "iri-reference", "uri-template", "regex"});

}  // namespace

const char* pattern_of_format(std::string_view format) {
  const auto found =
      std::find_if(kPatterns.begin(), kPatterns.end(), [&](const auto& row) { return format == row.first; });
  return found == kPatterns.end() ? nullptr : found->second;
}

bool is_defined_format(std::string_view format) {
  return pattern_of_format(format) != nullptr ||
         std::find(kOther.begin(), kOther.end(), format) != kOther.end();
}

}  // namespace reprise::protocol::grammar
