<?php
// PHP's pgsql and PDO over the wire protocol. Arguments: host, port, user, password, database.
[, $host, $port, $user, $password, $database] = $argv;
$byDept = "SELECT dept, COUNT(*) AS n, AVG(cost) AS cost FROM visits GROUP BY dept ORDER BY dept";
echo "PHP " . PHP_VERSION . "\n";
$options = "options='-c sfumato.epsilon=1'";
$plain = pg_connect("host=$host port=$port user=$user password=$password dbname=$database $options");
echo "pgsql: " . pg_num_rows(pg_query($plain, $byDept)) . " rows\n";
$found = pg_query_params($plain, 'SELECT id FROM staff WHERE id IN ($1,$2) AND seen < $3', [1, 2, '2030-01-01T00:00:00Z']);
echo "pgsql, parameters: " . pg_num_rows($found) . " rows\n";
$pdo = new PDO("pgsql:host=$host;port=$port;dbname=$database;$options", $user, $password);
$pdo->setAttribute(PDO::ATTR_ERRMODE, PDO::ERRMODE_EXCEPTION);
$asked = $pdo->prepare("SELECT id, name, active FROM staff WHERE id IN (?,?) AND active = ?");
$asked->execute([1, 2, 't']);
echo "PDO, parameters: " . count($asked->fetchAll()) . " rows\n";
echo "PDO: " . count($pdo->query($byDept)->fetchAll()) . " rows\n";
