#include "protocol/jinja/strftime.h"

#include <array>
#include <cstdio>
#include <ctime>

#include "protocol/jinja/error.h"

namespace reprise::protocol::jinja {
namespace {

constexpr std::array<const char*, 7> kDays = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                              "Thursday", "Friday", "Saturday"};
constexpr std::array<const char*, 12> kMonths = {"January",   "February", "March",    "April",
                                                 "May",       "June",     "July",     "August",
                                                 "September", "October",  "November", "December"};

std::string number(int value, int width, char flag) {
  char digits[16];
  const int least = flag == '-' ? 1 : width;
  if (flag == '_') {
    std::snprintf(digits, sizeof digits, "%*d", least, value);
  } else {
    std::snprintf(digits, sizeof digits, "%0*d", least, value);
  }
  return digits;
}

// Week of the year, the first being the one that holds a Thursday.
int iso_week(const std::tm& time, int& year) {
  const int weekday = (time.tm_wday + 6) % 7;  // Monday is 0
  int week = (time.tm_yday - weekday + 10) / 7;
  year = time.tm_year + 1900;
  const auto weeks_in = [&](int y) {
    const auto p = [](int v) { return (v + v / 4 - v / 100 + v / 400) % 7; };
    return p(y) == 4 || p(y - 1) == 3 ? 53 : 52;
  };
  if (week < 1) return weeks_in(--year);
  if (week > weeks_in(year)) return ++year, 1;
  return week;
}

std::string directive(char c, char flag, const std::tm& t, std::int64_t seconds) {
  const int hour12 = t.tm_hour % 12 == 0 ? 12 : t.tm_hour % 12;
  int iso_year = 0;
  switch (c) {
    case 'a':
      return std::string(kDays[static_cast<std::size_t>(t.tm_wday)]).substr(0, 3);
    case 'A':
      return kDays[static_cast<std::size_t>(t.tm_wday)];
    case 'b':
    case 'h':
      return std::string(kMonths[static_cast<std::size_t>(t.tm_mon)]).substr(0, 3);
    case 'B':
      return kMonths[static_cast<std::size_t>(t.tm_mon)];
    case 'd':
      return number(t.tm_mday, 2, flag);
    case 'e':
      return number(t.tm_mday, 2, flag != 0 ? flag : '_');
    case 'm':
      return number(t.tm_mon + 1, 2, flag);
    case 'y':
      return number((t.tm_year + 1900) % 100, 2, flag);
    case 'Y':
      return number(t.tm_year + 1900, 1, flag);
    case 'C':
      return number((t.tm_year + 1900) / 100, 2, flag);
    case 'H':
      return number(t.tm_hour, 2, flag);
    case 'k':
      return number(t.tm_hour, 2, flag != 0 ? flag : '_');
    case 'I':
      return number(hour12, 2, flag);
    case 'l':
      return number(hour12, 2, flag != 0 ? flag : '_');
    case 'M':
      return number(t.tm_min, 2, flag);
    case 'S':
      return number(t.tm_sec, 2, flag);
    case 'f':
      return "000000";
    case 'j':
      return number(t.tm_yday + 1, 3, flag);
    case 'p':
      return t.tm_hour < 12 ? "AM" : "PM";
    case 'P':
      return t.tm_hour < 12 ? "am" : "pm";
    case 'u':
      return number(t.tm_wday == 0 ? 7 : t.tm_wday, 1, flag);
    case 'w':
      return number(t.tm_wday, 1, flag);
    case 'U':
      return number((t.tm_yday + 7 - t.tm_wday) / 7, 2, flag);
    case 'W':
      return number((t.tm_yday + 7 - (t.tm_wday + 6) % 7) / 7, 2, flag);
    case 'V':
      return number(iso_week(t, iso_year), 2, flag);
    case 'G':
      iso_week(t, iso_year);
      return number(iso_year, 1, flag);
    case 's':
      return std::to_string(seconds);
    case 'z':
    case 'Z':
      return "";
    case 'n':
      return "\n";
    case 't':
      return "\t";
    case '%':
      return "%";
    case 'D':
    case 'x':
      return format_time("%m/%d/%y", seconds);
    case 'F':
      return format_time("%Y-%m-%d", seconds);
    case 'R':
      return format_time("%H:%M", seconds);
    case 'T':
    case 'X':
      return format_time("%H:%M:%S", seconds);
    case 'r':
      return format_time("%I:%M:%S %p", seconds);
    case 'c':
      return format_time("%a %b %e %H:%M:%S %Y", seconds);
    default:
      fail(std::string("strftime_now does not know %") + c);
  }
}

}  // namespace

std::string format_time(std::string_view format, std::int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  if (gmtime_r(&time, &parts) == nullptr) fail("strftime_now: the time is out of range");
  std::string out;
  for (std::size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%' || at + 1 >= format.size()) {
      out += format[at];
      continue;
    }
    char flag = 0;
    if (format[at + 1] == '-' || format[at + 1] == '_' || format[at + 1] == '0') flag = format[++at];
    if (at + 1 >= format.size()) fail("strftime_now: the format ends within a directive");
    out += directive(format[++at], flag, parts, seconds);
  }
  return out;
}

}  // namespace reprise::protocol::jinja
