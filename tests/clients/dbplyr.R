# dbplyr over the wire protocol. Arguments: host, port, user, password, database. It prints one line per client.
given <- commandArgs(TRUE)
suppressPackageStartupMessages({library(DBI); library(dplyr)})
cat(sprintf("%s with RPostgreSQL %s and dbplyr %s\n", R.version.string, packageVersion("RPostgreSQL"), packageVersion("dbplyr")))
connection <- dbConnect(
  RPostgreSQL::PostgreSQL(), host = given[1], port = as.integer(given[2]), user = given[3], password = given[4],
  dbname = given[5], options = "-c sfumato.epsilon=1"
)
by_dept <- tbl(connection, "visits") %>%
  group_by(dept) %>%
  summarise(n = n(), cost = mean(cost, na.rm = TRUE)) %>%
  arrange(dept) %>%
  collect()
cat(sprintf("dbplyr: (%d, %d)\n", nrow(by_dept), ncol(by_dept)))
staff <- tbl(connection, "staff") %>% filter(id %in% c(1, 2), name != "x") %>% select(id, name) %>% collect()
cat(sprintf("dbplyr, a public table: (%d, %d)\n", nrow(staff), ncol(staff)))
fetched <- dbSendQuery(connection, "SELECT id FROM staff WHERE id < 5 ORDER BY id")
cat(sprintf("DBI, in portions: %d and %d rows\n", nrow(dbFetch(fetched, 3)), nrow(dbFetch(fetched, -1))))
invisible(dbClearResult(fetched))
invisible(dbDisconnect(connection))
