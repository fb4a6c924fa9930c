# Ruby's pg over the wire protocol. Arguments: host, port, user, password, database.
require "pg"
host, port, user, password, database = ARGV
by_dept = "SELECT dept, COUNT(*) AS n, AVG(cost) AS cost FROM visits GROUP BY dept ORDER BY dept"
puts "Ruby #{RUBY_VERSION} with pg #{PG::VERSION}"
connection = PG.connect(
  host: host, port: port, user: user, password: password, dbname: database, options: "-c sfumato.epsilon=1"
)
puts "pg: #{connection.exec(by_dept).ntuples} rows"
found = connection.exec_params("SELECT id FROM staff WHERE id IN ($1,$2) AND seen < $3", [1, 2, "2030-01-01T00:00:00Z"])
puts "pg, parameters: #{found.ntuples} rows"
copied = []
connection.copy_data("COPY (SELECT id, name FROM staff ORDER BY id) TO STDOUT CSV") do
  while (row = connection.get_copy_data)
    copied << row
  end
end
puts "pg, COPY: #{copied.length} rows"
connection.transaction do
  connection.exec("DECLARE c CURSOR FOR SELECT id FROM staff ORDER BY id")
  puts "pg, cursor: #{connection.exec('FETCH 4 FROM c').ntuples} rows"
end
